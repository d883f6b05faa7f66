// The inbox in a page: its person, the approval of a link, and several answers at once.

import { act, render, screen, waitFor, within } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Approval } from 'fermata-chat';
import { approval, ApprovalServer, problem } from '../../../../packages/fermata-chat/tests/approvals';
import { setUpPage } from '../../chat/tests/page';

setUpPage();
beforeEach(() => {
  vi.resetModules();
  sessionStorage.clear();
});
afterEach(() => {
  vi.unstubAllGlobals();
  history.replaceState(null, '', '/');
});

const GROUPS = { alice: ['finance'], bob: ['finance'], carol: [] };
const ofCarol = (id: string) => approval(id, { decision: { ...approval(id).decision, by: ['user:carol'] } });

/** The page of alice, with a query in its URL. */
async function open(approvals: Approval[], query = '', instead: ApprovalServer['instead'] = {}) {
  const server = new ApprovalServer(GROUPS, approvals);
  server.instead = { 'GET /api/tools': () => new Response('{"tools":[]}', JSON_REPLY), ...instead };
  const page = { user: 'alice' };
  vi.stubGlobal('fetch', (url: string, init?: RequestInit) => server.as(page.user)(url, init));
  history.replaceState(null, '', `/inbox${query}`);
  const { InboxPage } = await import('../InboxPage');
  render(<InboxPage />);
  return { server, page, user: userEvent.setup() };
}

const JSON_REPLY = { headers: { 'content-type': 'application/json' } };

const card = (id: string) => document.querySelector<HTMLElement>(`[data-call="${id}"]`);
const shows = (id: string, words: RegExp) =>
  waitFor(() => {
    expect(card(id)?.textContent).toMatch(words);
  });

const posts = (server: ApprovalServer) =>
  server.requests.filter((request) => request.startsWith('POST')).map((request) => request.split(' ')[1]);

describe('the person', () => {
  it('is requested again with the next connection if the first request fails', async () => {
    const decision = { ...approval('a').decision, notRequester: false };
    const { server } = await open([approval('a', { requestedBy: 'alice', decision })], '', {
      'GET /api/me': () => problem(500, 'internal', 'No.'),
    });
    await shows('a', /Requested by alice/);
    server.instead = {};
    act(() => {
      server.breakStreams();
    });
    await shows('a', /Requested by you/);
  });

  it('is requested again with another token', async () => {
    const { page } = await open([]);
    const { whoAmI } = await import('../../chat/server/me');
    const { giveToken } = await import('../../chat/server/token');
    expect(await whoAmI()).toMatchObject({ user: 'alice' });
    page.user = 'bob';
    giveToken('the token of bob');
    expect(await whoAmI()).toMatchObject({ user: 'bob' });
  });
});

describe('the approval of a link', () => {
  it('has the focus if it waits for the person', async () => {
    await open([approval('a'), approval('b')], '?approval=b');
    await waitFor(() => {
      expect(document.activeElement).toBe(card('b'));
    });
    expect(card('a')).not.toBeNull();
  });

  it('is shown with its outcome if it is settled', async () => {
    const settled = { by: 'bob', at: approval('a').requestedAt, channel: 'slack' };
    await open([approval('a', { state: 'denied', settled })], '?approval=a');
    await shows('a', /Denied by bob/);
    expect(document.activeElement).toBe(card('a'));
    expect(screen.getByText('All done')).toBeTruthy();
  });

  it('is shown with its deciders if it waits for other people', async () => {
    await open([{ ...ofCarol('a'), requestedBy: 'alice' }], '?approval=a');
    await shows('a', /Waits for carol/);
  });

  it('is replaced by a sentence if the person may not see it', async () => {
    await open([ofCarol('a')], '?approval=a');
    await screen.findByText(
      'This link leads to a call that does not exist any more, or that you may not see.',
    );
    expect(card('a')).toBeNull();
  });
});

it.each([
  ['', '/'],
  ['?approval=a', '/'],
  ['?chat=c1', '/?chat=c1'],
  ['?chat=c1&approval=a', '/?chat=c1'],
])('with "%s" in its URL, the inbox leads back to %s', async (query, back) => {
  await open([], query);
  expect(screen.getByRole('link', { name: 'Back to the chats' }).getAttribute('href')).toBe(back);
});

describe('several answers at once', () => {
  /** Opens the list of all that waits, to approve it. */
  async function ask(approvals: Approval[]) {
    const opened = await open(approvals);
    const { user } = opened;
    await user.click(await screen.findByRole('checkbox', { name: 'Select all' }));
    await user.click(screen.getByRole('button', { name: 'Approve all' }));
    const dialog = within(screen.getByRole('dialog'));
    const press = (name: string) => user.click(dialog.getByRole('button', { name }));
    return { ...opened, dialog, press };
  }

  it('can be sent again while their calls wait with the listed inputs', async () => {
    const { server, dialog, press } = await ask([approval('a'), approval('b')]);
    server.instead['POST /api/approvals/b'] = () => problem(422, 'denied_by_policy', 'A rule denies this.');
    await press('Approve 2');
    await dialog.findByText('A rule denies this.');
    server.instead = {};
    await press('Approve 1');
    await dialog.findByRole('button', { name: 'Close' });
    expect(posts(server)).toEqual(['/api/approvals/a', '/api/approvals/b', '/api/approvals/b']);
  });

  it('are not sent again once the tool has changed, and the list has the newest approval', async () => {
    const { server, dialog, press } = await ask([approval('a'), approval('b')]);
    const settled = { by: null, at: approval('b').requestedAt, channel: null };
    server.instead['POST /api/approvals/b'] = () => {
      server.putUnheard(approval('b', { state: 'cancelled', settled }));
      return problem(409, 'tool_changed', 'The tool has changed.');
    };
    await press('Approve 2');
    await dialog.findByText('The tool has changed since this was shown. Look at the call again.');
    await dialog.findByRole('button', { name: 'Close' });
    await shows('b', /Cancelled/);
  });

  it('leave out calls that others have settled or changed meanwhile, and show why', async () => {
    const { server, dialog, press } = await ask([approval('a'), approval('b'), approval('c')]);
    act(() => {
      server.settle('b', 'bob', 'denied');
      server.edit('c', 'bob', { order: 8 });
    });
    await dialog.findByText(/^Denied by bob/);
    await dialog.findByText('The input has changed. Look at it again.');
    await press('Approve 1');
    await dialog.findByRole('button', { name: 'Close' });
    expect(posts(server)).toEqual(['/api/approvals/a']);
  });
});

it('says that the tool has changed if a vote is refused for it', async () => {
  const { server, user } = await open([approval('a')]);
  const settled = { by: null, at: approval('a').requestedAt, channel: null };
  server.instead['POST'] = () => {
    server.putUnheard(approval('a', { state: 'cancelled', settled }));
    return problem(409, 'tool_changed', 'The tool has changed.');
  };
  await user.click(await screen.findByRole('button', { name: 'Approve' }));
  await shows('a', /Cancelled/);
  expect(card('a')?.textContent).toContain(
    'The tool has changed since this was shown. Look at the call again.',
  );
});
