// The people who decide about a call, in its status and in the list of pending calls.

import { expect, test } from 'vitest';
import { callStatusIn } from '../../src/calls.js';
import { statusOf, type Pending } from '../../src/record.js';

const decision = {
  by: ['group:finance', 'user:carol'],
  quorum: 2,
  notRequester: true,
  approvedBy: ['alice'],
  mayDecide: false,
};

const pending: Pending = {
  id: 'p',
  toolCallId: 'a',
  tool: 'refund',
  input: {},
  inputText: '{}',
  kind: 'approval',
  state: 'awaiting_approval',
  since: '2026-03-02T11:03:00Z',
};

test('the status of a call has the people who decide', () => {
  const data = { toolCallId: 'a', state: 'awaiting_approval', waitsFor: 'other_people', decision };
  expect(callStatusIn(data)).toEqual({
    toolCallId: 'a',
    status: { state: 'awaiting_approval', waitsFor: 'other_people', decision },
  });
});

test('an approval waits for other people if the person may not decide', () => {
  expect(statusOf({ ...pending, decision })).toMatchObject({ waitsFor: 'other_people', decision });
  expect(statusOf({ ...pending, decision: { ...decision, mayDecide: true } })).toMatchObject({
    waitsFor: 'person',
  });
});

test('the person decides if the server is of an earlier version', () => {
  expect(callStatusIn({ toolCallId: 'a', state: 'scheduled' }).status).toEqual({ state: 'scheduled' });
  expect(statusOf(pending)).not.toHaveProperty('decision');
  expect(statusOf(pending)).toMatchObject({ waitsFor: 'person' });
});

test.each([
  [{}, { by: [], quorum: 1, notRequester: false, approvedBy: [], mayDecide: true }],
  [
    { by: ['requester', 7], quorum: '2' },
    { by: ['requester'], quorum: 1, mayDecide: true },
  ],
])('the missing fields of %j have their defaults', (given, read) => {
  expect(
    callStatusIn({ toolCallId: 'a', state: 'awaiting_approval', decision: given }).status.decision,
  ).toMatchObject(read);
});
