// Frontend tools in assistant-ui: each runs when the server says so, once, on the stream that is open.

import { expect, test } from 'vitest';
import { calls, gate, says, until } from '../world';
import { open, start, world } from './start';
import { frontend } from './tab';

const post = 'POST /api/chat';
const answer = 'POST /api/chat/tool-result';

/** A tool that notes what it is run with. */
function noting(name: string, output: unknown = 'done') {
  const inputs: unknown[] = [];
  const tool = frontend(name, (input) => {
    inputs.push(input);
    return output;
  });
  return { inputs, tool };
}

test('a tool runs in the stream that is open', async () => {
  await start();
  world.model.script(calls({ name: 'look', input: { at: 'the sea' } }), says('I see.'));
  const { inputs, tool } = noting('look', { waves: 3 });
  const tab = open({ tools: [tool] });
  await tab.say('look');
  await tab.reads('I see.');
  await tab.agrees();
  expect(inputs).toEqual([{ at: 'the sea' }]);
  expect(tab.count(post)).toBe(1);
  expect(tab.count(answer)).toBe(1);
  expect(tab.calls[0]?.result).toEqual({ waves: 3 });
});

test('a tool without input runs, and several run side by side', async () => {
  await start();
  world.model.script(calls({ name: 'slow', input: {} }, { name: 'quick', input: {} }), says('Both.'));
  const { opened, open: end } = gate();
  const quick = noting('quick');
  const tab = open({ tools: [frontend('slow', () => opened.then(() => 'slow')), quick.tool] });
  await tab.say('look');
  await tab.shows('quick', ({ result }) => result !== undefined);
  expect(tab.thread.getState().isRunning).toBe(true);
  end();
  await tab.reads('Both.');
  await tab.agrees();
  expect(tab.count(post)).toBe(1);
});

test('what a tool throws is the error of its call', async () => {
  await start();
  world.model.script(calls({ name: 'fail', input: {} }), says('A pity.'));
  const tab = open({ tools: [frontend('fail', () => Promise.reject(new Error('no permission')))] });
  await tab.say('try');
  await tab.reads('A pity.');
  await tab.agrees();
  expect(tab.calls[0]?.isError).toBe(true);
  expect(world.model.request(2).results[0]?.text).toContain('no permission');
});

test('human() waits for the person, and the thread does not run meanwhile', async () => {
  await start();
  world.model.script(calls({ name: 'pay', input: { sum: 3 } }), says('Paid.'));
  const tab = open({
    tools: [frontend('pay', async (_input, { human }) => ({ said: await human({ question: 'Really?' }) }))],
  });
  await tab.say('pay');
  const call = await tab.shows('pay', ({ interrupt }) => interrupt !== undefined);
  expect(call.interrupt).toEqual({ type: 'human', payload: { question: 'Really?' } });
  await until(() => tab.messages.at(-1)?.status?.type === 'requires-action', 'the message to require action');
  tab.part(call).resumeToolCall('yes');
  await tab.reads('Paid.');
  await tab.agrees();
  expect(tab.count(post)).toBe(1);
  expect(tab.calls[0]?.result).toEqual({ said: 'yes' });
});

test('a tool without execute is answered by its UI', async () => {
  await start();
  world.model.script(calls({ name: 'ask', input: { question: 'Who?' } }), says('Hello Ann.'));
  const tab = open({ tools: [frontend('ask')] });
  await tab.say('ask me');
  const call = await tab.shows(
    'ask',
    () => tab.thread.getState().messages.at(-1)?.status?.type === 'requires-action',
  );
  expect(call.args).toEqual({ question: 'Who?' });
  tab.part(call).addToolResult({ name: 'Ann' });
  await tab.reads('Hello Ann.');
  await tab.agrees();
  expect(tab.count(post)).toBe(1);
});

test('what the model is to read of a result goes to the server as assistant-ui has it', async () => {
  await start();
  world.model.script(calls({ name: 'shoot', input: {} }), says('Nice.'));
  const { tool } = noting('shoot', { bytes: 1000 });
  const tab = open({
    tools: [{ ...tool, toModelOutput: () => [{ type: 'text', text: 'a cat' }] } as typeof tool],
  });
  await tab.say('shoot');
  await tab.reads('Nice.');
  await tab.agrees();
  expect(tab.calls[0]?.result).toEqual({ bytes: 1000 });
  expect(world.model.request(2).results[0]?.text).toContain('a cat');
});

test('a reload while a tool waits for the person asks again, and runs it once more where it may', async () => {
  await start();
  world.model.script(calls({ name: 'pay', input: {} }), says('Paid.'));
  const tool = frontend('pay', async (_input, { human }) => ({ said: await human('Really?') }));
  const first = open({ tools: [tool], repeatable: ['pay'] });
  await first.say('pay');
  await first.shows('pay', ({ interrupt }) => interrupt !== undefined);
  const { id } = first.chat;
  first.close();
  world.browser.closePages();

  const second = open({ tools: [tool], repeatable: ['pay'], threadId: id });
  const call = await second
    .begun()
    .then(() => second.shows('pay', ({ interrupt }) => interrupt !== undefined));
  second.part(call).resumeToolCall('yes');
  await second.reads('Paid.');
  await second.agrees();
  expect(second.count(post)).toBe(0);
});

test('a reload while a call waits in the page without a UI for it goes on', async () => {
  await start();
  world.model.script(calls({ name: 'ask', input: {} }), says('Hello Ann.'));
  const first = open({ tools: [frontend('ask')] });
  await first.say('ask me');
  await first.shows('ask', () => true);
  const { id } = first.chat;
  first.close();
  world.browser.closePages();

  const second = open({ tools: [frontend('ask')], threadId: id });
  await second.begun();
  const call = await second.shows(
    'ask',
    () =>
      second.chat.messages
        .at(-1)
        ?.parts.some((part) => 'state' in part && part.state === 'input-available') === true,
  );
  second.part(call).addToolResult({ name: 'Ann' });
  await second.reads('Hello Ann.');
  await second.agrees();
});

test('two tabs run a tool once between them', async () => {
  await start();
  world.model.script(calls({ name: 'look', input: {} }), says('I see.'));
  const { opened, open: end } = gate();
  let runs = 0;
  const tool = frontend('look', () => opened.then(() => ++runs));
  const first = open({ tools: [tool] });
  await first.say('look');
  await first.shows('look', () => first.thread.getState().isRunning);
  const second = open({ tools: [tool], threadId: first.chat.id });
  await second.begun();
  await second.shows('look', () => true);
  end();
  await first.reads('I see.');
  await second.reads('I see.');
  await first.agrees();
  await second.agrees();
  expect(runs).toBe(1);
  expect(first.count(answer) + second.count(answer)).toBe(1);
});

test('stop ends the run, the tool that runs, and what a person was asked', async () => {
  await start();
  world.model.script(calls({ name: 'wait', input: {} }, { name: 'pay', input: {} }));
  let isAborted = false;
  const wait = frontend('wait', (_input, { abortSignal }) => {
    abortSignal.addEventListener('abort', () => (isAborted = true));
    return new Promise(() => undefined);
  });
  const pay = frontend('pay', (_input, { human }) => human('Really?'));
  const tab = open({ tools: [wait, pay] });
  await tab.say('wait');
  await tab.shows('pay', ({ interrupt }) => interrupt !== undefined);
  tab.thread.cancelRun();
  await tab.agrees();
  expect(isAborted).toBe(true);
  expect(tab.count(answer)).toBe(0);
  expect((await world.view(tab.chat.id)).open).toBe(false);
});

test('a new message supersedes what waits', async () => {
  await start();
  world.model.script(calls({ name: 'pay', input: {} }), says('As you like.'));
  const tab = open({ tools: [frontend('pay', (_input, { human }) => human('Really?'))] });
  await tab.say('pay');
  await tab.shows('pay', ({ interrupt }) => interrupt !== undefined);
  await tab.say('never mind');
  await tab.reads('As you like.');
  await until(() => tab.chat.status === 'ready', 'rest');
  expect(tab.count(answer)).toBe(0);
  const { messages, pending } = await world.view(tab.chat.id);
  expect(pending).toEqual([]);
  expect(messages.map(({ id }) => id)).toEqual(tab.chat.messages.map(({ id }) => id));
});

test('system, call settings and schemas of the model context are posted', async () => {
  await start();
  world.model.script(says('Hi.'));
  const { tool } = noting('look');
  const tab = open({ tools: [tool, frontend('ask')] });
  await tab.begun();
  tab.runtime.registerModelContextProvider({
    getModelContext: () => ({ system: 'Be brief.', callSettings: { temperature: 0 } }),
  });
  await tab.say('hi');
  await tab.reads('Hi.');
  expect(tab.bodies[0]).toMatchObject({ system: 'Be brief.', callSettings: { temperature: 0 } });
  expect(world.model.request(1).tools).toEqual(expect.arrayContaining(['look', 'ask']));
});
