// The table of states at the top of `state.ts`, as transcripts: what happens, the phase after it, and what is done.

import type { ChatStatus, UIMessage } from 'ai';
import { expect, test } from 'vitest';
import type { ChatRecord } from '../../src/record.js';
import { FermataError } from '../../src/server.js';
import { connectionOf, initialState, isLeft, reduce, type Event, type State } from '../../src/state.js';
import type { RequestEvent } from '../../src/transport.js';

const said = (id: string, text: string): UIMessage => ({ id, role: 'user', parts: [{ type: 'text', text }] });
const RECORD: ChatRecord = { messages: [said('u1', 'hello')], pending: [], open: false };
const WAITING: ChatRecord['pending'] = [
  {
    id: 'p1',
    toolCallId: 'c1',
    tool: 'ask',
    input: {},
    inputText: '{}',
    kind: 'output',
    state: 'input-available',
    since: '',
  },
];
const BODY = new ReadableStream<Uint8Array>();
const OPEN: ChatRecord = { ...RECORD, open: true };
const FAILURE = new Error('the server is shutting down');
const STALE = new FermataError(409, 'decision_is_stale', 'other calls wait by now');
const REFUSAL = new FermataError(413, 'too_large', 'too long');

/** What the AI SDK's chat says of itself from here on. */
interface Sdk {
  status?: ChatStatus;
  messages?: UIMessage[];
  givesBack?: boolean;
}

type Line = Event | Sdk | (RequestEvent & { request: number; isRequest: true });

const request = (number: number, what: RequestEvent): Line => ({ ...what, request: number, isRequest: true });

/** Plays events, from the state that others have led to. */
function play(lines: readonly Line[]): string[] {
  let state: State = initialState;
  let sdk: Required<Sdk> = { status: 'ready', messages: [said('u1', 'hello')], givesBack: false };
  let requests = 100;
  const transcript: string[] = [];
  for (const line of lines) {
    if (!('type' in line)) {
      sdk = { ...sdk, ...line };
      continue;
    }
    const event: Event = 'isRequest' in line ? { type: 'request', request: line.request, what: line } : line;
    const [next, actions] = reduce(state, event, { ...sdk, nextRequest: () => ++requests });
    state = next;
    const { phase } = state;
    const details = [
      phase.name,
      ...('isFresh' in phase && phase.isFresh ? ['(fresh)'] : []),
      ...('recovering' in phase ? ['(recovering)'] : []),
      ...(state.isStale ? ['stale'] : []),
      ...(state.draft ? [`draft${state.draft.isAside ? ' aside' : ''}`] : []),
      ...(isLeft(state) ? ['left'] : []),
      ...(connectionOf(state) === 'closed' ? [] : [connectionOf(state)]),
    ];
    const done = actions.map((action) =>
      'request' in action ? `${action.type} ${action.request}` : action.type,
    );
    const did = done.length === 0 ? '' : `: ${done.join(', ')}`;
    const number = 'request' in line ? ` ${line.request}` : '';
    transcript.push(`${line.type}${number} → ${details.join(' ')}${did}`);
  }
  return transcript;
}

const ENDED = { type: 'ended', isWhole: true, isAborted: false } as const;
const CUT = { type: 'ended', isWhole: false, isAborted: false } as const;
const ABORTED = { type: 'ended', isWhole: false, isAborted: true } as const;

test('a chat is opened, and its open run is followed', () => {
  expect(
    play([
      { type: 'opened', isNew: false },
      { type: 'loaded', request: 101, record: OPEN },
      request(101, { type: 'resumed' }),
      request(101, ENDED),
    ]),
  ).toMatchInlineSnapshot(`
    [
      "opened → loading stale: load 101",
      "loaded 101 → following stale: openStream 101",
      "resumed 101 → reading open",
      "ended 101 → idle",
    ]
  `);
});

test('a new chat asks the server for nothing, and its first message is read', () => {
  expect(
    play([
      { type: 'opened', isNew: true },
      request(1, { type: 'sent' }),
      request(1, { type: 'accepted' }),
      request(1, ENDED),
    ]),
  ).toMatchInlineSnapshot(`
    [
      "opened → idle",
      "sent 1 → sending",
      "accepted 1 → reading (fresh) open: stopTools, tellTabs, settleOlder",
      "ended 1 → idle",
    ]
  `);
});

test('a chat that nobody has posted to is empty, and any other refusal is shown', () => {
  expect(
    play([
      { type: 'opened', isNew: false },
      { type: 'notLoaded', request: 101, error: new FermataError(404, 'not_found', 'no such chat') },
      { type: 'refresh' },
      { type: 'notLoaded', request: 102, error: new FermataError(401, 'unauthorized', 'who are you?') },
      { type: 'failed', error: new FermataError(401, 'unauthorized', 'who are you?') },
      { type: 'shown' },
    ]),
  ).toMatchInlineSnapshot(`
    [
      "opened → loading stale: load 101",
      "notLoaded 101 → idle",
      "refresh → loading stale: load 102",
      "notLoaded 102 → failing: fail",
      "failed → failing",
      "shown → idle",
    ]
  `);
});

test('a run that ends between the record and the stream is loaded again', () => {
  expect(
    play([
      { type: 'opened', isNew: false },
      { type: 'loaded', request: 101, record: OPEN },
      { type: 'over', request: 101 },
      { type: 'loaded', request: 102, record: { ...RECORD, pending: WAITING } },
    ]),
  ).toMatchInlineSnapshot(`
    [
      "opened → loading stale: load 101",
      "loaded 101 → following stale: openStream 101",
      "over 101 → loading stale: load 102",
      "loaded 102 → idle: show",
    ]
  `);
});

test('a connection that breaks is taken up, and one that ends before its run is loaded', () => {
  expect(
    play([
      request(1, { type: 'sent' }),
      request(1, { type: 'accepted' }),
      request(1, { type: 'broke' }),
      request(1, { type: 'reconnected' }),
      request(1, CUT),
      { type: 'loaded', request: 101, record: RECORD },
    ]),
  ).toMatchInlineSnapshot(`
    [
      "sent 1 → sending",
      "accepted 1 → reading (fresh) open: stopTools, tellTabs, settleOlder",
      "broke 1 → reconnecting reconnecting",
      "reconnected 1 → reading open",
      "ended 1 → loading stale: load 101",
      "loaded 101 → idle: show",
    ]
  `);
});

test('a stream that a record ends shows it at once, and nothing is asked for', () => {
  expect(
    play([
      request(1, { type: 'sent' }),
      request(1, { type: 'accepted' }),
      { status: 'streaming' },
      request(1, { type: 'broke' }),
      request(1, { ...CUT, outcome: { record: RECORD } }),
      { status: 'ready' },
      { type: 'settled' },
    ]),
  ).toMatchInlineSnapshot(`
    [
      "sent 1 → sending",
      "accepted 1 → reading (fresh) open: stopTools, tellTabs, settleOlder",
      "broke 1 → reconnecting reconnecting",
      "ended 1 → idle: show",
      "settled → idle",
    ]
  `);
});

test('a stream that cannot go on where it ended is followed from its beginning', () => {
  expect(
    play([
      request(1, { type: 'sent' }),
      request(1, { type: 'accepted' }),
      { status: 'streaming' },
      request(1, { type: 'broke' }),
      request(1, { ...CUT, outcome: { record: OPEN, body: BODY } }),
      request(101, { type: 'resumed' }),
    ]),
  ).toMatchInlineSnapshot(`
    [
      "sent 1 → sending",
      "accepted 1 → reading (fresh) open: stopTools, tellTabs, settleOlder",
      "broke 1 → reconnecting reconnecting",
      "ended 1 → following reconnecting: openStream 101",
      "resumed 101 → reading open",
    ]
  `);
});

test('a record that ends an overtaken stream, or one whose page is left, changes nothing', () => {
  expect(
    play([
      request(1, { type: 'sent' }),
      request(1, { type: 'accepted' }),
      request(2, { type: 'sent' }),
      request(1, { ...CUT, outcome: { record: OPEN, body: BODY } }),
      request(2, { type: 'accepted' }),
      { type: 'left' },
      request(2, { ...CUT, outcome: { record: RECORD } }),
    ]),
  ).toMatchInlineSnapshot(`
    [
      "sent 1 → sending",
      "accepted 1 → reading (fresh) open: stopTools, tellTabs, settleOlder",
      "sent 2 → sending open",
      "ended 1 → sending: discard",
      "accepted 2 → reading (fresh) open: stopTools, tellTabs, settleOlder",
      "left → reading (fresh) stale left open: abort 2",
      "ended 2 → idle stale left",
    ]
  `);
});

test('words that were not sent come back behind the record that ends a stream', () => {
  const messages = [said('u1', 'hello'), said('u2', 'too long')];
  expect(
    play([
      request(1, { type: 'sent' }),
      request(1, { type: 'accepted' }),
      { messages },
      request(2, { type: 'sent' }),
      request(2, { type: 'refused', error: REFUSAL, isAborted: false }),
      request(1, { ...CUT, outcome: { record: RECORD } }),
      { type: 'loaded', request: 101, record: RECORD },
    ]),
  ).toMatchInlineSnapshot(`
    [
      "sent 1 → sending",
      "accepted 1 → reading (fresh) open: stopTools, tellTabs, settleOlder",
      "sent 2 → sending open",
      "refused 2 → reading stale draft open",
      "ended 1 → loading stale draft: load 101",
      "loaded 101 → failing draft: show, showDraft, fail",
    ]
  `);
});

test('nothing is loaded while the AI SDK is busy', () => {
  expect(
    play([
      { status: 'streaming' },
      { type: 'refresh' },
      { status: 'ready' },
      { type: 'settled' },
      { type: 'loaded', request: 101, record: RECORD },
    ]),
  ).toMatchInlineSnapshot(`
    [
      "refresh → idle stale",
      "settled → loading stale: load 101",
      "loaded 101 → idle: show",
    ]
  `);
});

test('a message while a stream is read supersedes it; the older stream ends by itself', () => {
  expect(
    play([
      request(1, { type: 'sent' }),
      request(1, { type: 'accepted' }),
      request(2, { type: 'sent' }),
      request(2, { type: 'accepted' }),
      request(1, CUT),
      request(2, ENDED),
    ]),
  ).toMatchInlineSnapshot(`
    [
      "sent 1 → sending",
      "accepted 1 → reading (fresh) open: stopTools, tellTabs, settleOlder",
      "sent 2 → sending open",
      "accepted 2 → reading (fresh) open: stopTools, tellTabs, settleOlder",
      "ended 1 → reading (fresh) open",
      "ended 2 → idle",
    ]
  `);
});

test('a message that is refused while a stream is read stays, and comes back behind what is read', () => {
  const messages = [said('u1', 'hello'), said('u2', 'too long')];
  expect(
    play([
      request(1, { type: 'sent' }),
      request(1, { type: 'accepted' }),
      { messages },
      request(2, { type: 'sent' }),
      request(2, { type: 'refused', error: REFUSAL, isAborted: false }),
      { status: 'error' },
      { type: 'failed', error: REFUSAL },
      request(1, ENDED),
      { type: 'loaded', request: 101, record: RECORD },
      { type: 'failed', error: REFUSAL },
      { type: 'shown' },
    ]),
  ).toMatchInlineSnapshot(`
    [
      "sent 1 → sending",
      "accepted 1 → reading (fresh) open: stopTools, tellTabs, settleOlder",
      "sent 2 → sending open",
      "refused 2 → reading stale draft open",
      "failed → reading stale draft open: tellPage",
      "ended 1 → loading stale draft: load 101",
      "loaded 101 → failing draft: show, showDraft, fail",
      "failed → failing draft",
      "shown → idle draft",
    ]
  `);
});

test('words that were refused are not pushed aside by a run that goes on, unless the person asks for it', () => {
  const messages = [said('u1', 'hello'), said('u2', 'too long')];
  const refused: Line[] = [
    { messages },
    request(1, { type: 'sent' }),
    request(1, { type: 'refused', error: REFUSAL, isAborted: false }),
  ];
  expect(
    play([
      ...refused,
      { status: 'error' },
      { type: 'refresh' },
      { type: 'loaded', request: 101, record: OPEN },
      { type: 'shown' },
      { status: 'ready' },
      { type: 'refresh' },
      { type: 'loaded', request: 102, record: OPEN },
      request(102, { type: 'resumed' }),
      request(102, ENDED),
      { type: 'loaded', request: 103, record: RECORD },
    ]),
  ).toMatchInlineSnapshot(`
    [
      "sent 1 → sending",
      "refused 1 → idle draft",
      "refresh → loading stale draft: load 101",
      "loaded 101 → failing draft: showDraft, fail",
      "shown → idle draft",
      "refresh → loading stale draft: load 102",
      "loaded 102 → following stale draft: openStream 102",
      "resumed 102 → reading stale draft aside open",
      "ended 102 → loading stale draft aside: load 103",
      "loaded 103 → failing draft: show, showDraft, fail",
    ]
  `);
});

test('a message that was taken although its reply was lost is no draft any more', () => {
  const messages = [said('u1', 'hello')];
  expect(
    play([
      { messages },
      request(1, { type: 'sent' }),
      request(1, { type: 'refused', error: new TypeError('fetch failed'), isAborted: false }),
      { status: 'error' },
      { type: 'failed', error: new TypeError('fetch failed') },
      { type: 'loaded', request: 101, record: OPEN },
      request(101, { type: 'resumed' }),
    ]),
  ).toMatchInlineSnapshot(`
    [
      "sent 1 → sending",
      "refused 1 → idle draft",
      "failed → loading (recovering) draft reconnecting: load 101",
      "loaded 101 → following: openStream 101",
      "resumed 101 → reading open",
    ]
  `);
});

test('a failed run that goes on is followed, and the page is told nothing', () => {
  expect(
    play([
      request(1, { type: 'sent' }),
      request(1, { type: 'accepted' }),
      { status: 'error' },
      { type: 'failed', error: FAILURE },
      request(1, ABORTED),
      request(101, { type: 'retrying' }),
      { type: 'loaded', request: 101, record: OPEN },
      request(101, { type: 'resumed' }),
    ]),
  ).toMatchInlineSnapshot(`
    [
      "sent 1 → sending",
      "accepted 1 → reading (fresh) open: stopTools, tellTabs, settleOlder",
      "failed → loading (recovering) reconnecting: load 101",
      "ended 1 → loading (recovering) reconnecting",
      "retrying 101 → loading (recovering) reconnecting",
      "loaded 101 → following reconnecting: openStream 101",
      "resumed 101 → reading open",
    ]
  `);
});

test('a run that was interrupted and is finished by now is shown, and the page is told nothing', () => {
  const answer: UIMessage = { id: 'a1', role: 'assistant', parts: [], metadata: { ending: 'finished' } };
  const finished: ChatRecord = { ...RECORD, messages: [...RECORD.messages, answer] };
  expect(
    play([
      { status: 'error' },
      { type: 'failed', error: FAILURE },
      { type: 'loaded', request: 101, record: finished },
    ]),
  ).toMatchInlineSnapshot(`
    [
      "failed → loading (recovering) reconnecting: load 101",
      "loaded 101 → idle: show",
    ]
  `);
});

test('a failed run is told, although its message has metadata: it says nothing of an end', () => {
  const calls = { call_1: { state: 'cancelled', code: 'run_ended' } };
  const answer: UIMessage = { id: 'a1', role: 'assistant', parts: [], metadata: { calls } };
  const failed: ChatRecord = { ...RECORD, messages: [...RECORD.messages, answer] };
  expect(
    play([
      { status: 'error' },
      { type: 'failed', error: FAILURE },
      { type: 'loaded', request: 101, record: failed },
    ]),
  ).toMatchInlineSnapshot(`
    [
      "failed → loading (recovering) reconnecting: load 101",
      "loaded 101 → idle: tellPage",
    ]
  `);
});

test('a failed run that is over is told, and nothing is asked for without end', () => {
  const failed: Event = { type: 'failed', error: FAILURE };
  expect(
    play([
      { status: 'error' },
      failed,
      { type: 'loaded', request: 101, record: RECORD },
      failed,
      { type: 'notLoaded', request: 102, error: new TypeError('fetch failed') },
      failed,
      { type: 'loaded', request: 103, record: RECORD },
      failed,
    ]),
  ).toMatchInlineSnapshot(`
    [
      "failed → loading (recovering) reconnecting: load 101",
      "loaded 101 → idle: tellPage",
      "failed → loading (recovering) reconnecting: load 102",
      "notLoaded 102 → idle: tellPage",
      "failed → loading (recovering) reconnecting: load 103",
      "loaded 103 → idle: tellPage",
      "failed → idle: tellPage",
    ]
  `);
});

test('a chat that two components have opened is left when both have left', () => {
  expect(
    play([
      { type: 'opened', isNew: true },
      { type: 'opened', isNew: true },
      request(1, { type: 'sent' }),
      request(1, { type: 'accepted' }),
      { type: 'left' },
      { type: 'left' },
      request(1, ABORTED),
      { type: 'opened', isNew: true },
    ]),
  ).toMatchInlineSnapshot(`
    [
      "opened → idle",
      "opened → idle",
      "sent 1 → sending",
      "accepted 1 → reading (fresh) open: stopTools, tellTabs, settleOlder",
      "left → reading (fresh) open",
      "left → reading (fresh) stale left open: abort 1",
      "ended 1 → idle stale left",
      "opened → loading stale: load 101",
    ]
  `);
});

test('a page that is left while a message is on its way does not read the answer', () => {
  expect(
    play([
      { type: 'opened', isNew: true },
      request(1, { type: 'sent' }),
      { type: 'left' },
      request(1, { type: 'accepted' }),
    ]),
  ).toMatchInlineSnapshot(`
    [
      "opened → idle",
      "sent 1 → sending",
      "left → sending left",
      "accepted 1 → reading (fresh) left open: stopTools, tellTabs, settleOlder, abort 1",
    ]
  `);
});

test('a stop that the server does not hear ends what is read, and the run is followed again', () => {
  expect(
    play([
      request(1, { type: 'sent' }),
      request(1, { type: 'accepted' }),
      { type: 'stopUnheard' },
      request(1, ABORTED),
      { type: 'loaded', request: 101, record: OPEN },
    ]),
  ).toMatchInlineSnapshot(`
    [
      "sent 1 → sending",
      "accepted 1 → reading (fresh) open: stopTools, tellTabs, settleOlder",
      "stopUnheard → reading (fresh) stale open: abort 1",
      "ended 1 → loading stale: load 101",
      "loaded 101 → following stale: openStream 101",
    ]
  `);
});

test('what comes of an overtaken request changes nothing', () => {
  expect(
    play([
      { type: 'refresh' },
      request(1, { type: 'sent' }),
      { type: 'loaded', request: 101, record: OPEN },
      { type: 'notLoaded', request: 101, error: FAILURE },
      { type: 'over', request: 101 },
      request(101, { type: 'retrying' }),
      request(1, { type: 'accepted' }),
    ]),
  ).toMatchInlineSnapshot(`
    [
      "refresh → loading stale: load 101",
      "sent 1 → sending stale",
      "loaded 101 → sending stale",
      "notLoaded 101 → sending stale",
      "over 101 → sending stale",
      "retrying 101 → sending stale",
      "accepted 1 → reading (fresh) stale open: stopTools, tellTabs, settleOlder",
    ]
  `);
});

test('a message that was to decide about what waits no longer goes back to the person, and the chat is loaded', () => {
  const messages = [said('u1', 'hello'), said('u2', 'yes')];
  expect(
    play([
      { type: 'opened', isNew: true },
      { status: 'submitted', messages },
      request(1, { type: 'sent' }),
      request(1, { type: 'refused', error: STALE, isAborted: false, message: said('u2', 'yes') }),
      { type: 'failed', error: STALE },
      { status: 'error' },
      { type: 'settled' },
      { type: 'loaded', request: 101, record: OPEN },
    ]),
  ).toMatchInlineSnapshot(`
    [
      "opened → idle",
      "sent 1 → sending",
      "refused 1 → idle stale: giveBack",
      "failed → idle stale: tellPage",
      "settled → loading stale: load 101",
      "loaded 101 → following stale: openStream 101",
    ]
  `);
});

test('a stream that is still read goes on after such a refusal', () => {
  const messages = [said('u1', 'hello'), said('u2', 'yes')];
  expect(
    play([
      { type: 'opened', isNew: true },
      request(1, { type: 'sent' }),
      request(1, { type: 'accepted' }),
      { status: 'submitted', messages },
      request(2, { type: 'sent' }),
      request(2, { type: 'refused', error: STALE, isAborted: false, message: said('u2', 'yes') }),
      { type: 'failed', error: STALE },
    ]),
  ).toMatchInlineSnapshot(`
    [
      "opened → idle",
      "sent 1 → sending",
      "accepted 1 → reading (fresh) open: stopTools, tellTabs, settleOlder",
      "sent 2 → sending open",
      "refused 2 → reading stale open: giveBack",
      "failed → reading stale open: tellPage",
    ]
  `);
});

test('on a page that wants them back, the words of any refused message go back to the person', () => {
  const messages = [said('u1', 'too long')];
  const refused = (error: Error, isAborted = false) =>
    play([
      { type: 'opened', isNew: true },
      { status: 'submitted', messages, givesBack: true },
      request(1, { type: 'sent' }),
      request(1, { type: 'refused', error, isAborted, message: said('u1', 'too long') }),
      { type: 'failed', error },
      { status: 'error', messages: [] },
      { type: 'settled' },
      { type: 'notLoaded', request: 101, error: new FermataError(404, 'not_found', 'no such chat') },
    ]);
  expect(refused(REFUSAL)).toMatchInlineSnapshot(`
    [
      "opened → idle",
      "sent 1 → sending",
      "refused 1 → idle stale: giveBack",
      "failed → idle stale: tellPage",
      "settled → loading stale: load 101",
      "notLoaded 101 → idle",
    ]
  `);
  // Whether the server has it is not known.
  expect(refused(new TypeError('fetch failed'))).toMatchInlineSnapshot(`
    [
      "opened → idle",
      "sent 1 → sending",
      "refused 1 → idle draft",
      "failed → loading (recovering) draft reconnecting: load 101",
      "settled → loading (recovering) draft reconnecting",
      "notLoaded 101 → idle draft: tellPage",
    ]
  `);
});

test('one reason is enough if the chat cannot be loaded either', () => {
  const blocked = new FermataError(200, 'foreign_reply', 'a sign-in page');
  expect(
    play([
      { type: 'opened', isNew: true },
      { status: 'submitted', givesBack: true },
      request(1, { type: 'sent' }),
      request(1, { type: 'refused', error: blocked, isAborted: false, message: said('u1', 'hello') }),
      { type: 'failed', error: blocked },
      { status: 'error', messages: [] },
      { type: 'settled' },
      { type: 'notLoaded', request: 101, error: blocked },
    ]),
  ).toMatchInlineSnapshot(`
    [
      "opened → idle",
      "sent 1 → sending",
      "refused 1 → idle stale: giveBack",
      "failed → idle stale: tellPage",
      "settled → loading stale: load 101",
      "notLoaded 101 → idle",
    ]
  `);
});

test('a message waits for the network, and what comes of it is as ever', () => {
  expect(
    play([
      { type: 'opened', isNew: true },
      request(1, { type: 'sent' }),
      request(1, { type: 'retrying' }),
      request(1, { type: 'accepted' }),
      request(1, ENDED),
    ]),
  ).toMatchInlineSnapshot(`
    [
      "opened → idle",
      "sent 1 → sending",
      "retrying 1 → sending reconnecting",
      "accepted 1 → reading (fresh) open: stopTools, tellTabs, settleOlder",
      "ended 1 → idle",
    ]
  `);
});
