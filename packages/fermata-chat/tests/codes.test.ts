// What the server says by codes, and no page has to read from its words: why a call has no output, what asks about it, and whether it waits for the
// gate. Live, and in a tab that was opened later.

import { afterEach, expect, test } from 'vitest';
import { FermataError, noOutputOf } from '../src/index.js';
import { calls, says, until, World, type Tab } from './world';

let world: World;
afterEach(() => world.end());

const ASK_USER = { ask_user: { inputSchema: { type: 'object' }, description: 'Asks.' } };
const NOTE = { title: 'Milk', body: 'buy milk' };

/** Why a call has no output, as this tab knows it. */
const noOutputIn = (tab: Tab, toolCallId: string) =>
  tab.chat.messages.map((message) => noOutputOf(message, toolCallId)).find((found) => found !== undefined);

/** Expects the same of a call in a tab that was there all along, and in one that loads the chat. */
async function expectNoOutput(tab: Tab, toolCallId: string, expected: object) {
  await world.agrees(tab);
  expect(noOutputIn(tab, toolCallId)).toEqual(expected);
  const later = world.tab();
  later.open();
  await until(
    () => later.chat.messages.length > 0,
    () => `the record; ${later.outline}`,
  );
  expect(noOutputIn(later, toolCallId)).toEqual(expected);
}

test('a call was stopped with its run', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'ask_user', input: {} }));
  const tab = world.tab({ tools: ASK_USER });
  tab.say('who am I?');
  const { toolCallId } = await tab.shows('ask_user', 'input-available');
  expect(noOutputIn(tab, toolCallId)).toBeUndefined();
  await tab.chat.stop();
  await expectNoOutput(tab, toolCallId, { state: 'cancelled', code: 'stopped' });
});

test('a call is told apart before its run is over', async () => {
  world = await World.create();
  world.model.script(
    calls({ name: 'ask_user', input: {} }, { name: 'ask_user', input: { which: 2 } }),
    says('Never mind.'),
  );
  const tab = world.tab({ tools: ASK_USER });
  tab.say('who am I?');
  const { toolCallId } = await tab.shows('ask_user', 'input-available');
  await until(() => tab.parts.filter(({ state }) => state === 'input-available').length === 2, 'both calls');
  await tab.chat.addToolOutput({
    tool: 'ask_user',
    toolCallId,
    state: 'output-error',
    errorText: 'Cancelled: this is what the page says.',
  });
  await until(() => noOutputIn(tab, toolCallId) !== undefined, 'the code');
  expect(noOutputIn(tab, toolCallId)).toEqual({ state: 'error', code: 'internal' });
  const open = tab.parts.find(({ state }) => state === 'input-available')?.toolCallId ?? '';
  await tab.chat.addToolOutput({ tool: 'ask_user', toolCallId: open, output: 'Ann' });
  await tab.reads('Never mind.');
  await expectNoOutput(tab, toolCallId, { state: 'error', code: 'internal' });
});

test('a denial has its reason, also as the error that version 5 is shown', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'write_note', input: NOTE }), says('I left it.'));
  const tab = world.tab();
  tab.say('write');
  const id = await tab.isAsked('write_note');
  const { toolCallId = '' } = tab.parts.find(({ type }) => type === 'tool-write_note') ?? {};
  await tab.chat.addToolApprovalResponse({ id, approved: false, reason: 'Not today' });
  await tab.reads('I left it.');
  await expectNoOutput(tab, toolCallId, { state: 'cancelled', code: 'denied', reason: 'Not today' });
});

test('a call that a message has left behind was superseded', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'ask_user', input: {} }), says('Fine.'));
  const tab = world.tab({ tools: ASK_USER });
  tab.say('who am I?');
  const { toolCallId } = await tab.shows('ask_user', 'input-available');
  tab.say('never mind');
  await tab.reads('Fine.');
  await expectNoOutput(tab, toolCallId, { state: 'cancelled', code: 'superseded' });
});

test('a page that loads a chat knows what its calls wait for, and what asks', async () => {
  world = await World.create({ FERMATA_HOLD: '1ms', FERMATA_CHAIN: 'ask' });
  world.model.script(calls({ name: 'current_time', input: {} }, { name: 'write_note', input: NOTE }));
  const tab = world.tab();
  tab.say('write');
  await tab.isAsked('write_note');
  await tab.rests();
  const later = world.tab();
  later.open();
  const [pending] = (await world.view()).pending;
  const toolCallId = pending?.toolCallId ?? '';
  await until(() => later.chat.callStatus(toolCallId) !== undefined, 'the status of the call');
  expect(later.chat.callStatus(toolCallId)).toMatchObject({
    state: 'awaiting_approval',
    waitsFor: 'person',
    reasonCode: 'chain',
    inputText: JSON.stringify(NOTE),
  });
  expect(later.chat.runStatus.get()).toMatchObject({ requiresConfirm: true, gateClosed: true });
});

test('under a progressive gate the gate is not closed, and an approved call waits for no other', async () => {
  world = await World.create({ FERMATA_GATE: 'progressive' });
  world.model.script(
    calls({ name: 'write_note', input: NOTE }, { name: 'write_note', input: { ...NOTE, title: 'Tea' } }),
  );
  const tab = world.tab();
  tab.say('write two');
  await tab.isAsked('write_note');
  await until(async () => (await world.view()).pending.length === 2, 'both questions');
  await until(() => tab.chat.runStatus.get()?.requiresConfirm === true, 'the status of the run');
  expect(tab.chat.runStatus.get()?.gateClosed).toBeUndefined();
  await tab.chat.stop();
  await tab.rests();
});

test('an edit that does not fit is refused with its places', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'write_note', input: NOTE }));
  const tab = world.tab();
  tab.say('write');
  const id = await tab.isAsked('write_note');
  const refused = await tab.chat
    .addToolApprovalResponse({ id, approved: true, inputText: '{"title":1,"body":"b"}' })
    .catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(FermataError);
  expect((refused as FermataError).errors.map(({ pointer }) => pointer)).toEqual(['/title']);
  await tab.chat.stop();
  await tab.rests();
});
