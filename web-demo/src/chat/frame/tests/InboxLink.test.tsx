// The link to the inbox and its number.

import { act, render, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { approval, ApprovalServer, problem } from '../../../../../packages/fermata-chat/tests/approvals';
import { setUpPage } from '../../tests/page';

setUpPage();
beforeEach(() => {
  vi.resetModules();
});
afterEach(() => {
  vi.unstubAllGlobals();
});

/** Returns the link on a user's page after the first count. */
async function linkOf(server: ApprovalServer, user: string) {
  vi.stubGlobal('fetch', server.as(user));
  const { InboxLink } = await import('../InboxLink');
  const { countWaiting } = await import('../../server/waitingForMe');
  render(<InboxLink chatId="c1" />);
  const ask = () => act(countWaiting);
  await ask();
  const says = (label: string) =>
    waitFor(() => {
      expect(screen.getByRole('link').getAttribute('aria-label')).toBe(label);
    });
  return { ask, says, link: () => screen.queryByRole('link') };
}

const mine = (id: string) =>
  approval(id, { decision: { ...approval(id).decision, by: ['user:alice', 'user:anyone'] } });

it('shows the number of waiting calls, and names the chat to return to', async () => {
  const server = new ApprovalServer({}, [mine('a'), mine('b')]);
  const { ask, says, link } = await linkOf(server, 'alice');
  await says('Inbox: 2 calls wait for you');
  expect(link()?.textContent).toBe('2');
  expect(link()?.getAttribute('href')).toBe('/inbox?chat=c1');
  server.settle('a', 'bob', 'denied');
  await ask();
  await says('Inbox: 1 call waits for you');
});

it('does not count calls that the person has approved', async () => {
  const voted = { ...approval('a').decision, by: ['user:alice'], quorum: 2, approvedBy: ['alice'] };
  const { says } = await linkOf(new ApprovalServer({}, [approval('a', { decision: voted })]), 'alice');
  await says('Inbox');
});

it('is shown without a number if the server knows users', async () => {
  const { says } = await linkOf(new ApprovalServer({}), 'alice');
  await says('Inbox');
});

it('is shown only while calls wait if the server knows no users', async () => {
  const server = new ApprovalServer({});
  const { ask, says, link } = await linkOf(server, 'anyone');
  expect(link()).toBeNull();
  server.put(mine('a'));
  await ask();
  await says('Inbox: 1 call waits for you');
});

it('is never shown for a server of an earlier version, which gets one request', async () => {
  const server = new ApprovalServer({});
  server.instead['GET /api/me'] = () => problem(404, 'not_found', 'There is nothing here.');
  const { ask, link } = await linkOf(server, 'alice');
  await ask();
  expect(link()).toBeNull();
  expect(server.requests).toEqual(['GET /api/me']);
});

it('keeps its number while the server is away, and counts again later', async () => {
  const server = new ApprovalServer({}, [mine('a')]);
  server.instead['GET /api/me'] = () => problem(500, 'internal', 'No.');
  const { ask, says, link } = await linkOf(server, 'alice');
  expect(link()).toBeNull();
  server.instead = {};
  await ask();
  await says('Inbox: 1 call waits for you');
  server.instead['GET /api/approvals'] = () => problem(500, 'internal', 'No.');
  await ask();
  await says('Inbox: 1 call waits for you');
});
