// Questions whether a call may run, answered with what assistant-ui gives to a tool's UI.

import { expect, test } from 'vitest';
import { calls, says, until } from '../world';
import { open, start, world } from './start';
import { frontend } from './tab';

const post = 'POST /api/chat';

const ASK = `[[policy]]
tool = "create_*"
from = "browser"
decision = "ask"
`;

/** A tool that notes what it is run with. */
function creating() {
  const inputs: unknown[] = [];
  const tool = frontend('create_record', (input) => {
    inputs.push(input);
    return { created: inputs.length };
  });
  return { inputs, tool };
}

test('a tool of the page that is asked about runs once it is approved', async () => {
  await start(ASK);
  world.model.script(calls({ name: 'create_record', input: { name: 'Ann' } }), says('Done.'));
  const { inputs, tool } = creating();
  const tab = open({ tools: [tool] });
  await tab.say('create');
  const call = await tab.asks('create_record');
  expect(call.args).toEqual({ name: 'Ann' });
  await until(() => tab.messages.at(-1)?.status?.type === 'requires-action', 'the message to require action');
  expect(inputs).toEqual([]);
  await tab.part(call).respondToToolApproval({ approved: true });
  await tab.reads('Done.');
  await tab.agrees();
  expect(inputs).toEqual([{ name: 'Ann' }]);
  expect(tab.count(post)).toBe(1);
});

test('a denied call does not run, and the model is told why', async () => {
  await start(ASK);
  world.model.script(calls({ name: 'create_record', input: { name: 'Ann' } }), says('As you like.'));
  const { inputs, tool } = creating();
  const tab = open({ tools: [tool] });
  await tab.say('create');
  await tab
    .part(await tab.asks('create_record'))
    .respondToToolApproval({ approved: false, reason: 'not today' });
  await tab.reads('As you like.');
  await tab.agrees();
  expect(inputs).toEqual([]);
  expect(world.model.request(2).results[0]?.text).toContain('not today');
});

test('"always" holds for the next call of the tool', async () => {
  await start(`${ASK}always = true\n`);
  const again = (name: string) => calls({ name: 'create_record', input: { name } });
  world.model.script(again('Ann'), again('Bob'), says('Both.'));
  const { inputs, tool } = creating();
  const tab = open({ tools: [tool] });
  await tab.say('create two');
  const call = await tab.asks('create_record');
  expect(call.approval?.options?.map(({ kind }) => kind)).toContain('allow-always');
  await tab.part(call).respondToToolApproval({ optionId: 'always' });
  await tab.reads('Both.');
  await tab.agrees();
  expect(inputs).toEqual([{ name: 'Ann' }, { name: 'Bob' }]);
  expect(tab.count(post)).toBe(1);
});

test('a tool runs with the input as it was edited', async () => {
  await start(ASK);
  world.model.script(calls({ name: 'create_record', input: { name: 'Ann' } }), says('Done.'));
  const { inputs, tool } = creating();
  const tab = open({ tools: [tool] });
  await tab.say('create');
  const { approval } = await tab.asks('create_record');
  await tab.chat.addToolApprovalResponse({ id: approval?.id ?? '', approved: true, input: { name: 'Anna' } });
  await tab.reads('Done.');
  await tab.agrees();
  expect(inputs).toEqual([{ name: 'Anna' }]);
  expect(tab.calls[0]?.args).toEqual({ name: 'Anna' });
});

test('human() works in a call that was asked about', async () => {
  await start(ASK);
  world.model.script(calls({ name: 'create_record', input: { name: 'Ann' } }), says('Done.'));
  const tool = frontend('create_record', async (_input, { human }) => [
    await human('Sure?'),
    await human('Really?'),
  ]);
  const tab = open({ tools: [tool] });
  await tab.say('create');
  await tab.part(await tab.asks('create_record')).respondToToolApproval({ approved: true });
  for (const question of ['Sure?', 'Really?']) {
    const call = await tab.shows(
      'create_record',
      ({ interrupt }) => interrupt?.type === 'human' && interrupt.payload === question,
    );
    tab.part(call).resumeToolCall(`yes to ${question}`);
  }
  await tab.reads('Done.');
  await tab.agrees();
  expect(tab.calls[0]?.result).toEqual(['yes to Sure?', 'yes to Really?']);
  expect(tab.count(post)).toBe(1);
});

test('a call of the server is asked about and runs there', async () => {
  await start();
  world.model.script(
    calls({ name: 'write_note', input: { title: 'Milk', body: 'Two litres.' } }),
    says('Noted.'),
  );
  const tab = open();
  await tab.say('note');
  await tab.part(await tab.asks('write_note')).respondToToolApproval({ approved: true });
  await tab.reads('Noted.');
  await tab.agrees();
  expect(tab.count(post)).toBe(1);
});

test('a reload while a question is open shows it again', async () => {
  await start(ASK);
  world.model.script(calls({ name: 'create_record', input: { name: 'Ann' } }), says('Done.'));
  const { inputs, tool } = creating();
  const first = open({ tools: [tool] });
  await first.say('create');
  await first.asks('create_record');
  const { id } = first.chat;
  first.close();
  world.browser.closePages();

  const second = open({ tools: [tool], threadId: id });
  await second.begun();
  await second.part(await second.asks('create_record')).respondToToolApproval({ approved: true });
  await second.reads('Done.');
  await second.agrees();
  expect(inputs).toEqual([{ name: 'Ann' }]);
});

test('an answer in one tab closes the question in the other', async () => {
  await start(ASK);
  world.model.script(calls({ name: 'create_record', input: { name: 'Ann' } }), says('Done.'));
  const { inputs, tool } = creating();
  const first = open({ tools: [tool] });
  await first.say('create');
  await first.asks('create_record');
  const second = open({ tools: [tool], threadId: first.chat.id });
  await second.begun();
  await second.part(await second.asks('create_record')).respondToToolApproval({ approved: true });
  await first.reads('Done.');
  await second.reads('Done.');
  await first.agrees();
  await second.agrees();
  expect(inputs).toHaveLength(1);
});

test('after the stream was let go, the answer goes on in a post of its own, in the same message', async () => {
  await start(ASK);
  world.model.script(calls({ name: 'create_record', input: { name: 'Ann' } }), says('Done.'));
  const { inputs, tool } = creating();
  const tab = open({ tools: [tool], hold: '0s' });
  await tab.say('create');
  const call = await tab.asks('create_record');
  await until(() => tab.chat.status === 'ready', 'the stream to end');
  await tab.part(call).respondToToolApproval({ approved: true });
  await tab.reads('Done.');
  await tab.agrees();
  expect(inputs).toHaveLength(1);
  expect(tab.messages).toHaveLength(2);
});
