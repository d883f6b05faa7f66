// The inbox as a transcript: its contents after each event, without a server.

import { expect, test } from 'vitest';
import { applyToInbox, EMPTY_INBOX, type InboxEvent, type InboxState } from '../../src/inbox.js';
import { isWaitingFor } from '../../src/index.js';
import { approval } from '../approvals';

const a = approval('a');
const b = approval('b');
const denied = { ...a, state: 'denied', settled: { by: 'bob', at: a.requestedAt, channel: 'api' } } as const;
const ofOthers = approval('a', { decision: { ...a.decision, mayDecide: false } });

/** Returns a line for each event. Approvals that do not wait for alice are in brackets, and those that are gone have dashes. */
function transcript(events: InboxEvent[]): string[] {
  let state: InboxState = EMPTY_INBOX;
  return events.map((event) => {
    state = applyToInbox(state, event);
    const words = state.approvals.map((one) => {
      if (state.gone.has(one.id)) return `-${one.id}-`;
      return isWaitingFor('alice', one) ? one.id : `(${one.id} ${one.state})`;
    });
    return [`${event.type}: ${state.status}`, ...words].join(' ');
  });
}

const listed = (...approvals: (typeof a)[]): InboxEvent => ({ type: 'listed', approvals });
const changed = (one: typeof a): InboxEvent => ({ type: 'changed', approval: one });

test('an inbox is live only while it has the list and a connection', () => {
  expect(
    transcript([
      { type: 'connected' },
      listed(),
      { type: 'disconnected' },
      { type: 'connected' },
      { type: 'disconnected' },
      listed(),
      { type: 'connected' },
      listed(),
    ]),
  ).toEqual([
    'connected: loading',
    'listed: live',
    'disconnected: outdated',
    'connected: outdated',
    'disconnected: outdated',
    'listed: outdated',
    'connected: outdated',
    'listed: live',
  ]);
});

test('an inbox that is opened again keeps its approvals and is outdated', () => {
  const opened: InboxEvent = { type: 'opened' };
  const failed: InboxEvent = { type: 'failed', error: new Error('no') };
  expect(
    transcript([opened, { type: 'connected' }, listed(a), opened, { type: 'connected' }, failed, opened]),
  ).toEqual([
    'opened: loading',
    'connected: loading',
    'listed: live a',
    'opened: outdated a',
    'connected: outdated a',
    'failed: failed a',
    'opened: outdated a',
  ]);
});

test('a change that comes while the list is read is newer than the list', () => {
  expect(transcript([{ type: 'connected' }, changed(a), changed(denied), changed(b), listed(a)])).toEqual([
    'connected: loading',
    'changed: loading a',
    'changed: loading (a denied)',
    'changed: loading (a denied) b',
    'listed: live (a denied) b',
  ]);
});

test('a settled approval, or one that waits for others, keeps its place until the inbox is tidied', () => {
  expect(
    transcript([
      { type: 'connected' },
      listed(a, b),
      changed(denied),
      { type: 'tidied', user: 'alice' },
      changed(ofOthers),
      changed(approval('b', { decision: { ...b.decision, quorum: 2, approvedBy: ['alice'] } })),
      { type: 'tidied', user: 'alice' },
    ]),
  ).toEqual([
    'connected: loading',
    'listed: live a b',
    'changed: live (a denied) b',
    'tidied: live b',
    'changed: live b',
    'changed: live (b waiting)',
    'tidied: live',
  ]);
});

test('an approval that is gone is marked, and a change brings it back', () => {
  expect(
    transcript([
      { type: 'connected' },
      listed(a),
      { type: 'gone', id: 'a' },
      changed(a),
      { type: 'gone', id: 'a' },
      listed(a),
    ]),
  ).toEqual([
    'connected: loading',
    'listed: live a',
    'gone: live -a-',
    'changed: live a',
    'gone: live -a-',
    'listed: live a',
  ]);
});

test('an inbox whose list cannot be read keeps its approvals and fails', () => {
  const error = new Error('no');
  expect(
    transcript([{ type: 'failed', error }, { type: 'connected' }, listed(a), { type: 'failed', error }]),
  ).toEqual(['failed: failed', 'connected: outdated', 'listed: live a', 'failed: failed a']);
});
