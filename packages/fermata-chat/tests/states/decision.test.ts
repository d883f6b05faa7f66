// Who decides about a call, as the status of the call and the list of what waits say it.

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

test('the status of a call says who decides', () => {
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

test('a server of an earlier version says nothing of it, and the person decides', () => {
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
])('what is missing in %j has its default', (given, read) => {
  expect(
    callStatusIn({ toolCallId: 'a', state: 'awaiting_approval', decision: given }).status.decision,
  ).toMatchObject(read);
});
