// The inbox in a page: the person it is for.

import { act, render, waitFor } from '@testing-library/react';
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

/** The page of alice, with a query in its URL. */
async function open(approvals: Approval[], query = '', instead: ApprovalServer['instead'] = {}) {
  const server = new ApprovalServer(GROUPS, approvals);
  server.instead = { 'GET /api/tools': () => new Response('{"tools":[]}', JSON_REPLY), ...instead };
  const page = { user: 'alice' };
  vi.stubGlobal('fetch', (url: string, init?: RequestInit) => server.as(page.user)(url, init));
  history.replaceState(null, '', `/inbox${query}`);
  const { InboxPage } = await import('../InboxPage');
  render(<InboxPage />);
  return { server, page };
}

const JSON_REPLY = { headers: { 'content-type': 'application/json' } };

const card = (id: string) => document.querySelector<HTMLElement>(`[data-call="${id}"]`);
const shows = (id: string, words: RegExp) =>
  waitFor(() => {
    expect(card(id)?.textContent).toMatch(words);
  });

describe('the person', () => {
  it('is asked about again with the next connection if the first request fails', async () => {
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

  it('is asked about again with another token', async () => {
    const { page } = await open([]);
    const { whoAmI } = await import('../../chat/server/me');
    const { giveToken } = await import('../../chat/server/token');
    expect(await whoAmI()).toMatchObject({ user: 'alice' });
    page.user = 'bob';
    giveToken('the token of bob');
    expect(await whoAmI()).toMatchObject({ user: 'bob' });
  });
});
