import { expect, test } from 'vitest';
import {
  groupParts,
  isParked,
  isQuiet,
  isSamePart,
  isShownAsCall,
  isShownAsQuestion,
  isToldAsPlan,
  planCallOf,
  saysNothing,
  type DataPart,
  type Message,
  type Part,
  type ToolPart,
} from '../message';

const OWN = { makePlan: 'make_plan', updatePlan: 'update_plan', remember: 'remember', forget: 'forget' };

const text = (words: string, state: 'streaming' | 'done' = 'done'): Part => ({
  type: 'text',
  text: words,
  state,
});
const call = (toolCallId: string, state = 'output-available'): ToolPart =>
  ({ type: 'tool-x', toolCallId, state, input: {} }) as ToolPart;
const step: Part = { type: 'step-start' };
const compaction = (state: string): Part => ({ type: 'data-compaction', id: 'c', data: { state } });
const source = (sourceId: string): Part => ({ type: 'source-url', sourceId, url: 'https://example.com' });
const model = (...parts: Part[]): Message => ({ id: 'm', role: 'assistant', parts });
const user: Message = { id: 'u', role: 'user', parts: [text('hi')] };

const shape = (parts: Part[]) =>
  groupParts(parts).map((group) => ('parts' in group ? [group.kind, group.parts.length] : group.kind));

test('calls of a step that follow each other are one group; those of the next step are another', () => {
  expect(shape([step, text('a'), call('1'), call('2'), step, call('3'), step, text('b')])).toEqual([
    'text',
    ['step', 2],
    ['step', 1],
    'text',
  ]);
});

test('sources are listed together, and what asks stands with the calls', () => {
  const elicitation = { type: 'data-elicitation', id: 'e', data: {} } as Part;
  expect(shape([step, call('1'), elicitation, source('a'), source('b')])).toEqual([
    ['step', 2],
    ['sources', 2],
  ]);
});

test('what was left out stands between the steps', () => {
  expect(shape([step, text('a'), call('1'), step, compaction('done'), text('b')])).toEqual([
    'text',
    ['step', 1],
    'compaction',
    'text',
  ]);
});

test('an answer of which only something was left out before it says nothing', () => {
  expect(saysNothing(model(step, compaction('failed')))).toBe(true);
  expect(saysNothing(model(step, compaction('failed'), text('a')))).toBe(false);
});

test('it is quiet once something was left out, but not as long as the page says that a summary is written', () => {
  expect(isQuiet([user, model(step, compaction('running'))], 'streaming')).toBe(false);
  expect(isQuiet([user, model(step, compaction('done'))], 'streaming')).toBe(true);
});

test('empty texts, data for programs, and parts that nobody knows yet are not shown', () => {
  const unknown = { type: 'from-the-future' } as unknown as Part;
  expect(shape([step, text(''), { type: 'data-weather', data: 1 }, unknown])).toEqual([]);
});

test('reasoning that has just begun is shown, and one that came to nothing is not', () => {
  expect(shape([{ type: 'reasoning', text: '', state: 'streaming' }])).toEqual(['reasoning']);
  expect(shape([{ type: 'reasoning', text: '', state: 'done' }])).toEqual([]);
});

test('a group keeps its key while the message grows', () => {
  const before = groupParts([step, text('a'), call('1')]);
  const after = groupParts([step, text('a and more'), call('1'), call('2'), step, text('b')]);
  expect(after.slice(0, 2).map(({ key }) => key)).toEqual(before.map(({ key }) => key));
});

test.each(['input-streaming', 'input-available', 'approval-requested', 'approval-responded'])(
  'a call in %s is parked',
  (state) => {
    expect(isParked(model(step, call('1', state)))).toBe(true);
  },
);

test('a group stays as it was when the AI SDK writes on in its part', () => {
  const part = text('a');
  const [before] = groupParts([part]);
  Object.assign(part, { text: 'a and more' });
  expect(before).toMatchObject({ part: { text: 'a' } });
});

test('a question of a running tool is parked until it is answered', () => {
  const question = (state: string) => ({ type: 'data-elicitation', id: 'e', data: { state } }) as Part;
  expect(isParked(model(step, question('pending')))).toBe(true);
  expect(isParked(model(step, question('accepted')))).toBe(false);
});

test('only the last step can be parked, and only in a message of the model', () => {
  expect(isParked(model(step, call('1', 'input-available'), step, text('on')))).toBe(false);
  expect(isParked(user)).toBe(false);
  expect(isParked(undefined)).toBe(false);
});

test('it is quiet until the first thing to be seen, and between a settled call and what follows', () => {
  expect(isQuiet([user], 'submitted')).toBe(true);
  expect(isQuiet([user, model(step)], 'streaming')).toBe(true);
  expect(isQuiet([user, model(step, call('1'))], 'streaming')).toBe(true);
  expect(isQuiet([user, model(step, call('1'), step)], 'streaming')).toBe(true);
  expect(isQuiet([user, model(step, text('a'))], 'streaming')).toBe(true);
});

test('it is not quiet while text comes, while a call waits, and when nothing is at work', () => {
  expect(isQuiet([user, model(step, text('a', 'streaming'))], 'streaming')).toBe(false);
  expect(isQuiet([user, model(step, call('1'), call('2', 'approval-requested'))], 'streaming')).toBe(false);
  expect(isQuiet([user, model(step, text('a'))], 'ready')).toBe(false);
});

test('a copy of a part is the same, and a part with another text is not', () => {
  const part = text('a');
  expect(isSamePart(part, { ...part })).toBe(true);
  expect(isSamePart(part, { ...part, text: 'ab' } as Part)).toBe(false);
  expect(isSamePart(part, { ...part, providerMetadata: {} } as Part)).toBe(false);
});

test('the card of the last call that made a plan shows it, with the steps that are ticked off', () => {
  const callOf = (name: string, toolCallId: string, state = 'output-available') =>
    ({ ...call(toolCallId, state), type: `tool-${name}` }) as ToolPart;
  const update = callOf('update_plan', 'c');
  const failed = callOf('update_plan', 'd', 'output-error');
  const planned = model(callOf('make_plan', 'a'), callOf('make_plan', 'b', 'output-error'), update, failed);
  expect(planCallOf(planned, OWN)).toBe('a');
  expect([update, failed].map((part) => isToldAsPlan(part, planned, OWN))).toEqual([true, false]);
  expect(planCallOf(model(update), OWN)).toBeUndefined();
  expect(isToldAsPlan(update, model(update), OWN)).toBe(false);
  // Another server may have other names for them, and before it says so they are tools like any other.
  expect(planCallOf(planned, { ...OWN, makePlan: 'plan' })).toBeUndefined();
  expect(planCallOf(planned, undefined)).toBeUndefined();
  expect(isToldAsPlan(update, planned, undefined)).toBe(false);
});

test('a call that asks for the model is shown as its question until that is answered, whatever the name of its tool', () => {
  const asker = call('a', 'input-available');
  const question = (more: object) =>
    ({
      type: 'data-elicitation',
      id: 'e',
      data: { toolCallId: 'a', asks: 'assistant', state: 'pending', ...more },
    }) as DataPart;
  const told = (part: DataPart) => [
    isShownAsQuestion(asker, model(asker, part)),
    isShownAsCall(part.data, model(asker, part)),
  ];
  expect(told(question({}))).toEqual([true, false]);
  expect(told(question({ state: 'accepted' }))).toEqual([false, true]);
  expect(told(question({ toolCallId: 'b' }))).toEqual([false, false]);
  // A tool that asks while it runs has a card of its own beside the question.
  expect(told(question({ asks: 'tool' }))).toEqual([false, false]);
  expect(told(question({ asks: 'mcp', state: 'accepted' }))).toEqual([false, false]);
});
