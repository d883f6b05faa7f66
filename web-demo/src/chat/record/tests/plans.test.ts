import { expect, test } from 'vitest';
import type { Plan } from 'fermata-chat';
import { isPlanContinued, type Message } from '../message';

const plan = (state: Plan['state'], goal = 'Tea', step = 'find'): Plan => ({
  goal,
  state,
  steps: [{ id: step, title: step, dependsOn: [], state: 'todo' }],
});

/** A chat with these plans, each in a message of its own. */
const chatWith = (...plans: (Plan | undefined)[]): Message[] =>
  plans.map((data, place) => ({
    id: String(place),
    role: 'assistant',
    parts: data === undefined ? [] : [{ type: 'data-plan', data }],
  }));

test.each([
  ['the only plan is the live one', [plan('accepted')], [false]],
  [
    'an open plan goes on in a later message',
    [plan('accepted'), undefined, plan('accepted')],
    [true, false, false],
  ],
  ['what is done elsewhere is shown once', [plan('done'), plan('done')], [true, false]],
  ['an open plan was replaced', [plan('accepted'), plan('accepted', 'Coffee', 'brew')], [true, false]],
  [
    'a plan that is done is no part of the next',
    [plan('done'), plan('accepted', 'Coffee', 'brew')],
    [false, false],
  ],
  [
    'a denied plan is followed by another',
    [plan('denied'), plan('proposed', 'Coffee', 'brew')],
    [false, false],
  ],
])('%s', (_, plans, expected) => {
  const messages = chatWith(...plans);
  expect(messages.map((message) => isPlanContinued(message, messages))).toEqual(expected);
});
