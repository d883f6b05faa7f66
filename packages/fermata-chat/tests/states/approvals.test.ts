// Requests about approvals, against a fake server.

import { expect, test } from 'vitest';
import { ApprovalInbox, FermataError, fermata, type Approval } from '../../src/index.js';
import { retry } from '../../src/server.js';
import { approval, ApprovalServer, hashOf, problem } from '../approvals';
import { gate, until } from '../../../../e2e/harness/until.mjs';

const GROUPS = { alice: ['finance'], bob: ['finance'], dave: [] };

const requests = (server: ApprovalServer, method: string) =>
  server.requests.filter((request) => request.startsWith(method));

/** Opens the inbox of alice. */
function open(...approvals: Approval[]) {
  const server = new ApprovalServer(GROUPS, approvals);
  const inbox = new ApprovalInbox(fermata({ fetch: server.as('alice') }).approvals);
  const close = inbox.open();
  const shown = () => {
    const { status, approvals, gone } = inbox.contents.get();
    return [
      status,
      ...approvals.map(({ id, state }) => (gone.has(id) ? `${id} gone` : `${id} ${state}`)),
    ].join(', ');
  };
  const shows = (words: string) =>
    until(
      () => shown() === words,
      () => `"${words}"; shown: ${shown()}`,
    );
  return { server, inbox, close, shown, shows };
}

const refusal = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: unknown) => error as FermataError,
  );

test('a list is read page by page', async () => {
  const many = Array.from({ length: 101 }, (_, number) => approval(`a${number}`));
  const server = new ApprovalServer(GROUPS, many);
  const { approvals } = fermata({ fetch: server.as('alice') });
  const ids: string[] = [];
  for await (const { id } of approvals.all({ mine: true, tool: 'refund' })) ids.push(id);
  expect(ids).toEqual(many.map(({ id }) => id));
  expect(server.requests).toEqual([
    'GET /api/approvals?mine=true&tool=refund&limit=100',
    'GET /api/approvals?mine=true&tool=refund&limit=100&before=a99',
  ]);
});

test('a vote has the hash of the input that was shown, and sends an edited input unchanged', async () => {
  const server = new ApprovalServer(GROUPS, [approval('a/b')]);
  const { approvals } = fermata({ fetch: server.as('alice') });
  const [known] = (await approvals.list()).approvals;
  if (known === undefined) throw new Error('nothing is listed');
  const voted = await approvals.vote(known, { approved: true, inputText: '{"order":12345678901234567890}' });
  expect(voted.state).toBe('approved');
  const hash = hashOf('{"order":7,"amount":120}');
  expect(requests(server, 'POST')).toEqual([
    `POST /api/approvals/a%2Fb {"approved":true,"inputHash":"${hash}","input":{"order":12345678901234567890}}`,
  ]);
});

test('a server of an earlier version has no user', async () => {
  const server = new ApprovalServer(GROUPS);
  const client = fermata({ fetch: server.as('alice') });
  expect(await client.me()).toEqual({ user: 'alice', groups: ['finance'] });
  server.instead['GET /api/me'] = () => problem(404, 'not_found', 'There is nothing here.');
  expect(await client.me()).toBeUndefined();
});

test('an inbox shows new approvals and the decisions of other people', async () => {
  const { server, close, shows } = open(approval('a'));
  await shows('live, a waiting');
  server.put(approval('b'));
  server.put(approval('c', { decision: { ...approval('c').decision, by: ['user:carol'] } }));
  server.settle('a', 'bob', 'denied', 'too much');
  await shows('live, a denied, b waiting');
  close();
  await until(() => server.readers === 0, 'the stream to be closed');
});

test('a connection that breaks resumes after its last event, and the list is read again', async () => {
  const { server, close, shows } = open(approval('a'), approval('b'));
  await shows('live, a waiting, b waiting');
  server.put(approval('c'));
  await shows('live, a waiting, b waiting, c waiting');
  // A restarted server has lost its events.
  const known = approval('a');
  server.putUnheard({
    ...known,
    state: 'expired',
    settled: { by: null, at: known.requestedAt, channel: null },
  });
  server.remove('b');
  server.putUnheard(approval('d'));
  server.breakStreams();
  await shows('live, a expired, b gone, c waiting, d waiting');
  close();
});

test('an inbox fails if its stream is refused, and can be reloaded', async () => {
  const { server, inbox, close, shows } = open(approval('a'));
  await shows('live, a waiting');
  server.instead['GET /api/approvals/events'] = () => problem(403, 'forbidden', 'No.');
  server.breakStreams();
  await shows('failed, a waiting');
  expect(inbox.contents.get().error).toMatchObject({ code: 'forbidden' });
  server.instead = {};
  inbox.reload();
  await shows('live, a waiting');
  close();
});

test('an inbox fails if its list is refused, and does not count as empty', async () => {
  const server = new ApprovalServer(GROUPS);
  server.instead['GET /api/approvals?'] = () => problem(500, 'internal', 'No.');
  const inbox = new ApprovalInbox(fermata({ fetch: server.as('alice') }).approvals);
  const close = inbox.open();
  await until(() => inbox.contents.get().status === 'failed', 'the failure');
  await until(() => server.readers === 0, 'the stream to be closed');
  close();
});

test('closing ends the reader of a reload, and a closed inbox is not reloaded', async () => {
  const { server, inbox, close, shows } = open(approval('a'));
  await shows('live, a waiting');
  inbox.reload();
  await shows('outdated, a waiting');
  await shows('live, a waiting');
  expect(server.readers).toBe(1);
  close();
  await until(() => server.readers === 0, 'the stream to be closed');
  const before = server.requests.length;
  inbox.reload();
  expect(server.requests).toHaveLength(before);
});

test('an earlier closer does not close what was opened later', async () => {
  const { server, inbox, close, shows } = open(approval('a'));
  await shows('live, a waiting');
  const closeLater = inbox.open();
  close();
  await shows('live, a waiting');
  expect(server.readers).toBe(1);
  closeLater();
  await until(() => server.readers === 0, 'the stream to be closed');
});

test('an aborted request is not made again', async () => {
  const abort = new AbortController();
  let attempts = 0;
  const failing = () => {
    attempts++;
    return Promise.reject(new Error('no network'));
  };
  const retrying = refusal(retry(failing, () => true, abort.signal));
  await until(() => attempts > 0, 'the first attempt');
  abort.abort();
  expect(await retrying).toMatchObject({ message: 'no network' });
  expect(attempts).toBe(1);
});

test('the refused list of an earlier connection does not fail the inbox', async () => {
  const server = new ApprovalServer(GROUPS, [approval('a')]);
  const list = gate();
  const refused = problem(500, 'internal', 'No.');
  server.instead['GET /api/approvals?'] = async () => {
    await list.opened;
    return refused;
  };
  const inbox = new ApprovalInbox(fermata({ fetch: server.as('alice') }).approvals);
  const close = inbox.open();
  await until(() => requests(server, 'GET /api/approvals?').length === 1, 'the first list to be read');
  server.instead = {};
  server.breakStreams();
  await until(() => inbox.contents.get().status === 'live', 'the second list to be read');
  list.open();
  await until(() => refused.bodyUsed, 'the first list to be refused');
  await new Promise((resolve) => setTimeout(resolve));
  expect(inbox.contents.get().status).toBe('live');
  close();
});

test('an outcome is read again after a network error', async () => {
  const { server, close, shows } = open(approval('a'));
  await shows('live, a waiting');
  const settled = { by: null, at: approval('a').requestedAt, channel: null };
  server.putUnheard(approval('a', { state: 'expired', settled }));
  server.instead['GET /api/approvals/a'] = () => {
    server.instead = {};
    return Promise.reject(new TypeError('fetch failed'));
  };
  server.breakStreams();
  await shows('live, a expired');
  close();
});

test('a late vote shows the outcome, and a vote about an old input shows the new input', async () => {
  const { server, inbox, close, shows } = open(approval('a'), approval('b'));
  await shows('live, a waiting, b waiting');
  const [a, b] = inbox.contents.get().approvals;
  if (a === undefined || b === undefined) throw new Error('two are listed');
  server.breakStreams();
  server.instead['GET /api/approvals/events'] = () => problem(503, 'unavailable', 'Not now.');
  server.settle('a', 'bob', 'denied');
  server.edit('b', 'bob', { order: 8 });
  const late = await refusal(inbox.vote(a, { approved: true }));
  expect(late).toMatchObject({ code: 'already_answered', approval: { settled: { by: 'bob' } } });
  expect(await refusal(inbox.vote(b, { approved: true }))).toMatchObject({ code: 'changed' });
  await shows('outdated, a denied, b waiting');
  expect(inbox.contents.get().approvals[1]).toMatchObject({ inputText: '{"order":8}' });
  close();
});

test('a refused vote shows who decides now, or that the approval is gone', async () => {
  const { server, inbox, close, shows } = open(approval('a'), approval('b'));
  await shows('live, a waiting, b waiting');
  const [a, b] = inbox.contents.get().approvals;
  if (a === undefined || b === undefined) throw new Error('two are listed');
  server.putUnheard({ ...a, decision: { ...a.decision, by: ['user:carol'], approvedBy: ['alice'] } });
  server.remove('b');
  expect(await refusal(inbox.vote(a, { approved: true }))).toMatchObject({ code: 'not_yours_to_decide' });
  expect(await refusal(inbox.vote(b, { approved: true }))).toMatchObject({ code: 'not_found' });
  await shows('live, a waiting, b gone');
  expect(inbox.contents.get().approvals[0]?.decision).toMatchObject({ by: ['user:carol'], mayDecide: false });
  close();
});

test.each(['not_yours_to_decide', 'tool_changed', 'gone'])(
  'after a vote is refused with %s, the approval is read again until that succeeds',
  async (code) => {
    const { server, inbox, close, shows } = open(approval('a'));
    await shows('live, a waiting');
    const [a] = inbox.contents.get().approvals;
    if (a === undefined) throw new Error('one is listed');
    const settled = { by: null, at: a.requestedAt, channel: null };
    server.putUnheard({ ...a, state: 'cancelled', settled });
    server.instead = {
      'POST /api/approvals/a': () => problem(409, code, 'No.'),
      'GET /api/approvals/a': () => {
        server.instead = {};
        return Promise.reject(new TypeError('fetch failed'));
      },
    };
    expect(await refusal(inbox.vote(a, { approved: true }))).toMatchObject({ code });
    await shows('live, a cancelled');
    close();
  },
);

test('a 404 of a proxy does not mark an approval as gone', async () => {
  const { server, inbox, close, shows } = open(approval('a'));
  await shows('live, a waiting');
  const [a] = inbox.contents.get().approvals;
  if (a === undefined) throw new Error('one is listed');
  server.instead['POST'] = () => new Response('<h1>Not found</h1>', { status: 404 });
  expect(await refusal(inbox.vote(a, { approved: true }))).toMatchObject({ code: 'foreign_reply' });
  await shows('live, a waiting');
  close();
});

test('the reply to a vote does not override a newer event', async () => {
  const { server, inbox, close, shows } = open(
    approval('a', { decision: { ...approval('a').decision, quorum: 2 } }),
  );
  await shows('live, a waiting');
  const [a] = inbox.contents.get().approvals;
  if (a === undefined) throw new Error('one is listed');
  const old = { ...a, decision: { ...a.decision, approvedBy: ['alice'] } };
  server.instead['POST'] = async () => {
    server.settle('a', 'bob', 'denied');
    await shows('live, a denied');
    return new Response(JSON.stringify(old), { headers: { 'content-type': 'application/json' } });
  };
  await inbox.vote(a, { approved: true });
  await shows('live, a denied');
  close();
});

test('an approval that is read again does not override a newer event', async () => {
  const { server, inbox, close, shows } = open(approval('a'));
  await shows('live, a waiting');
  const [a] = inbox.contents.get().approvals;
  if (a === undefined) throw new Error('one is listed');
  server.instead = {
    POST: () => problem(403, 'not_yours_to_decide', 'No.'),
    'GET /api/approvals/a': async () => {
      server.settle('a', 'bob', 'denied');
      await shows('live, a denied');
      return new Response(JSON.stringify(a), { headers: { 'content-type': 'application/json' } });
    },
  };
  expect(await refusal(inbox.vote(a, { approved: true }))).toMatchObject({ code: 'not_yours_to_decide' });
  await shows('live, a denied');
  close();
});

test('an approval that the page asks for is shown until the inbox is tidied, with its changes', async () => {
  const ofCarol = { ...approval('b').decision, by: ['user:carol'], approvedBy: ['alice'] };
  const { server, inbox, close, shown, shows } = open(approval('a'), approval('b', { decision: ofCarol }));
  inbox.show('b');
  inbox.show('c');
  await shows('live, a waiting, b waiting');
  await until(() => inbox.contents.get().gone.has('c'), 'the missing one to be gone');
  server.settle('b', 'carol', 'denied');
  await shows('live, a waiting, b denied');
  inbox.tidy('alice');
  expect(shown()).toBe('live, a waiting');
  inbox.show('b');
  await shows('live, a waiting, b denied');
  close();
});

test('an approval that the page asks for is read again with the next connection', async () => {
  const { server, inbox, close, shows } = open(approval('a'));
  await shows('live, a waiting');
  server.settle('a', 'bob', 'approved');
  inbox.tidy('alice');
  server.instead['GET /api/approvals/a'] = () => problem(500, 'internal', 'No.');
  inbox.show('a');
  await until(() => requests(server, 'GET /api/approvals/a').length === 1, 'the first attempt');
  server.instead = {};
  server.breakStreams();
  await shows('live, a approved');
  close();
});
