// Answers: on the stream while it is open, by a post after that, once in any case.

import { afterEach, expect, test } from 'vitest';
import { FermataError, type FermataChat } from '../src/index.js';
import { calls, client, says, until, World } from './world';

let world: World;
afterEach(() => world.end());

const post = 'POST /api/chat';
const answer = 'POST /api/chat/tool-result';
const ASK_USER = { ask_user: { inputSchema: { type: 'object' }, description: 'Asks.' } };
const NOTE = { title: 'Milk', body: 'buy milk' };

/** Requests besides those that every answer makes. */
const posts = (requests: string[]) => requests.filter((request) => request !== answer);

for (const name of ['addToolOutput', 'addToolResult'] as const) {
  test(`an output goes on in the stream that is open (${name})`, async () => {
    world = await World.create();
    world.model.script(calls({ name: 'ask_user', input: {} }), says('So you are Ann.'));
    const tab = world.tab({ tools: ASK_USER });
    tab.say('who am I?');
    const { toolCallId } = await tab.shows('ask_user', 'input-available');
    await (tab.chat[name] as FermataChat['addToolOutput'])({
      tool: 'ask_user',
      toolCallId,
      output: { name: 'Ann' },
    });
    await tab.reads('So you are Ann.');
    await world.agrees(tab);
    expect(tab.requests).toEqual([post, answer]);
    expect(tab.errors).toEqual([]);
  });
}

test('an error is an answer, too', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'ask_user', input: {} }), says('Never mind.'));
  const tab = world.tab({ tools: ASK_USER });
  tab.say('who am I?');
  const { toolCallId } = await tab.shows('ask_user', 'input-available');
  await tab.chat.addToolOutput({
    tool: 'ask_user',
    toolCallId,
    state: 'output-error',
    errorText: 'nobody is here',
  });
  await tab.reads('Never mind.');
  expect((await tab.shows('ask_user', 'output-error')).errorText).toBe('nobody is here');
  await world.agrees(tab);
  expect(tab.requests).toEqual([post, answer]);
});

test('a page knows how far a call is, and what it waits for', async () => {
  world = await World.create();
  world.model.script(
    calls({ name: 'write_note', input: NOTE }, { name: 'current_time', input: {} }),
    says('Written.'),
  );
  const tab = world.tab();
  const heard: unknown[] = [];
  let clock = '';
  tab.chat.onCallStatus(() => heard.push(tab.chat.callStatus(clock)));
  tab.say('write');
  const id = await tab.isAsked('write_note');
  clock = (await tab.shows('current_time', 'input-available')).toolCallId;
  await until(() => tab.chat.callStatus(clock)?.waitsFor !== undefined, 'the status of the call');
  const call = { tool: 'current_time', title: 'Tell the time' };
  expect(tab.chat.callStatus(clock)).toEqual({ ...call, state: 'scheduled', waitsFor: 'gate' });
  await tab.chat.addToolApprovalResponse({ id, approved: true });
  await tab.reads('Written.');
  await world.agrees(tab);
  expect(tab.chat.callStatus(clock)).toEqual({ ...call, state: 'success' });
  expect(heard).toContainEqual({ ...call, state: 'executing' });
});

test('other tabs are told that an input is being edited', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'write_note', input: NOTE }), says('Written.'));
  const tab = world.tab();
  tab.say('write');
  const id = await tab.isAsked('write_note');
  const part = tab.chat.messages.at(-1)?.parts.find(({ type }) => type === 'tool-write_note');
  const { toolCallId } = part as { toolCallId: string };
  const isEdited = () => tab.chat.callStatus(toolCallId)?.editing === true;
  await tab.chat.noteEditing(id, true);
  await until(isEdited, 'word of the editing');
  await tab.chat.noteEditing(id, false);
  await until(() => !isEdited(), 'word of its end');
  await tab.chat.addToolApprovalResponse({ id, approved: true });
  await tab.reads('Written.');
  await expect(tab.chat.noteEditing(id, true)).rejects.toThrow(FermataError);
});

test('a call is previewed with another input', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'write_note', input: NOTE }), says('Written.'));
  const tab = world.tab();
  tab.say('write');
  const id = await tab.isAsked('write_note');
  const edited = JSON.stringify({ ...NOTE, title: 'Rye' });
  const preview = await tab.chat.previewInput(id, edited);
  expect(preview).toMatchObject({ decision: 'ask', details: { kind: 'edit', text: 'Rye' } });
  expect(preview.description).toContain('Rye');
  await expect(tab.chat.previewInput(id, '{"title":7}')).rejects.toMatchObject({ status: 422 });
  await expect(tab.chat.previewInput(id, edited, AbortSignal.abort())).rejects.toThrow(/abort/i);
  await tab.chat.addToolApprovalResponse({ id, approved: true });
  await tab.reads('Written.');
  await expect(tab.chat.previewInput(id, edited)).rejects.toMatchObject({ status: 409 });
});

test('an approval and a denial go on in the stream that is open', async () => {
  world = await World.create();
  world.model.script(
    calls({ name: 'write_note', input: NOTE }, { name: 'write_note', input: { ...NOTE, title: 'Tea' } }),
    says('One of two.'),
  );
  const tab = world.tab();
  tab.say('write two');
  await tab.isAsked('write_note');
  const { pending } = await world.view();
  expect(pending).toHaveLength(2);
  await tab.chat.addToolApprovalResponse({ id: pending[0]?.approvalId ?? '', approved: true });
  await tab.chat.addToolApprovalResponse({
    id: pending[1]?.approvalId ?? '',
    approved: false,
    reason: 'no tea',
  });
  await tab.reads('One of two.');
  await world.agrees(tab);
  expect(tab.requests).toEqual([post, answer, answer]);
  expect(JSON.stringify(world.model.request(2).messages)).toContain('no tea');
});

test('always decides what comes later', async () => {
  world = await World.create();
  world.model.script(
    calls({ name: 'write_note', input: NOTE }, { name: 'write_note', input: { ...NOTE, title: 'Tea' } }),
    calls({ name: 'write_note', input: { ...NOTE, title: 'Coffee' } }),
    says('Three notes.'),
  );
  const tab = world.tab();
  tab.say('write three');
  const id = await tab.isAsked('write_note');
  await tab.chat.addToolApprovalResponse({ id, approved: true, always: true });
  await tab.reads('Three notes.');
  await world.agrees(tab);
  expect(tab.requests).toEqual([post, answer]);
});

test('an edited input runs, and the model is told of it', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'write_note', input: NOTE }), says('Done.'));
  const tab = world.tab();
  tab.say('write');
  const id = await tab.isAsked('write_note');
  await tab.chat.addToolApprovalResponse({
    id,
    approved: true,
    input: { title: 'Oat milk', body: 'buy oat milk' },
  });
  await tab.reads('Done.');
  await world.agrees(tab);
  expect(JSON.stringify(world.model.request(2).calls)).toContain('Oat milk');
  expect((await tab.shows('write_note', 'output-available')).input).toEqual({
    title: 'Oat milk',
    body: 'buy oat milk',
  });
});

test('an edit that does not fit is refused with words, and the call waits on', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'write_note', input: NOTE }), says('Done.'));
  const tab = world.tab();
  tab.say('write');
  const id = await tab.isAsked('write_note');
  const refused = tab.chat.addToolApprovalResponse({ id, approved: true, input: { title: 1 } });
  await expect(refused).rejects.toMatchObject({ status: 422 });
  await expect(refused).rejects.toBeInstanceOf(FermataError);
  expect(await tab.isAsked('write_note')).toBe(id);
  await tab.chat.addToolApprovalResponse({ id, approved: true });
  await tab.reads('Done.');
  await world.agrees(tab);
});

test('the same answer twice is harmless, and another one is refused', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'ask_user', input: {} }), says('Ann it is.'));
  const tab = world.tab({ tools: ASK_USER });
  tab.say('who am I?');
  const { toolCallId } = await tab.shows('ask_user', 'input-available');
  const answers = ['Ann', 'Ann'].map(async (output) => {
    await tab.chat.addToolOutput({ tool: 'ask_user', toolCallId, output });
  });
  await Promise.all(answers);
  await expect(tab.chat.addToolOutput({ tool: 'ask_user', toolCallId, output: 'Bob' })).rejects.toMatchObject(
    { code: 'already_answered' },
  );
  await tab.reads('Ann it is.');
  await world.agrees(tab);
  expect(tab.count(post)).toBe(1);
});

test('after the stream was let go, an output goes on by a post, in the same message', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'ask_user', input: {} }), says('So you are Ann.'));
  const tab = world.tab({ tools: ASK_USER, hold: '0s' });
  tab.say('who am I?');
  const { toolCallId } = await tab.shows('ask_user', 'input-available');
  await tab.rests();
  await tab.chat.addToolOutput({ tool: 'ask_user', toolCallId, output: 'Ann' });
  await tab.reads('So you are Ann.');
  await world.agrees(tab);
  expect(tab.chat.messages).toHaveLength(2);
  expect(posts(tab.requests)).toEqual([post, post]);
});

test('after the stream was let go, each decision is kept at once, and the last one goes on', async () => {
  world = await World.create();
  world.model.script(
    calls({ name: 'write_note', input: NOTE }, { name: 'write_note', input: { ...NOTE, title: 'Tea' } }),
    says('One of two.'),
  );
  const tab = world.tab({ hold: '0s' });
  tab.say('write two');
  await tab.isAsked('write_note');
  await tab.rests();
  const [first, second] = (await world.view()).pending;
  await tab.chat.addToolApprovalResponse({ id: first?.approvalId ?? '', approved: true });
  expect((await world.view()).pending.map((waiting) => waiting.approvalId)).toEqual([second?.approvalId]);
  await tab.chat.addToolApprovalResponse({ id: second?.approvalId ?? '', approved: false, reason: 'no tea' });
  await tab.reads('One of two.');
  await world.agrees(tab);
  // Version 5 has no message to post that says so.
  if (client > 5) expect(posts(tab.requests)).toEqual([post, post]);
});

for (const hold of [undefined, '0s']) {
  test(`an approval is taken back while another call of the step waits (hold ${hold ?? 'auto'})`, async () => {
    world = await World.create();
    world.model.script(
      calls({ name: 'write_note', input: NOTE }, { name: 'write_note', input: { ...NOTE, title: 'Tea' } }),
      says('One of two.'),
    );
    const tab = world.tab(hold === undefined ? {} : { hold });
    tab.say('write two');
    await tab.isAsked('write_note');
    if (hold !== undefined) await tab.rests();
    await until(async () => (await world.view()).pending.length === 2, 'both calls to wait');
    const [first, second] = (await world.view()).pending;
    for (const approved of [true, false])
      await tab.chat.addToolApprovalResponse({ id: first?.approvalId ?? '', approved });
    expect((await world.view()).pending.map((waiting) => waiting.approvalId)).toEqual([second?.approvalId]);
    await tab.chat.addToolApprovalResponse({ id: second?.approvalId ?? '', approved: true });
    await tab.reads('One of two.');
    await world.agrees(tab);
  });
}

test('after the stream was let go, always decides the other calls that wait', async () => {
  world = await World.create();
  world.model.script(
    calls({ name: 'write_note', input: NOTE }, { name: 'write_note', input: { ...NOTE, title: 'Tea' } }),
    says('Both.'),
  );
  const tab = world.tab({ hold: '0s' });
  tab.say('write two');
  const id = await tab.isAsked('write_note');
  await tab.rests();
  await tab.chat.addToolApprovalResponse({ id, approved: true, always: true });
  await tab.reads('Both.');
  await world.agrees(tab);
  if (client > 5) expect(posts(tab.requests)).toEqual([post, post]);
});

test('after the stream was let go, an edited input runs', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'write_note', input: NOTE }), says('Done.'));
  const tab = world.tab({ hold: '0s' });
  tab.say('write');
  const id = await tab.isAsked('write_note');
  await tab.rests();
  await tab.chat.addToolApprovalResponse({
    id,
    approved: true,
    input: { title: 'Oat milk', body: 'buy oat milk' },
  });
  await tab.reads('Done.');
  await world.agrees(tab);
  expect((await tab.shows('write_note', 'output-available')).input).toEqual({
    title: 'Oat milk',
    body: 'buy oat milk',
  });
});

test('a call that only waits for the others of its step needs no click of its own', async () => {
  world = await World.create();
  let runs = 0;
  const tools = { look: { inputSchema: { type: 'object' }, execute: () => ++runs } };
  world.model.script(calls({ name: 'look', input: {} }, { name: 'write_note', input: NOTE }), says('Both.'));
  const tab = world.tab({ tools, hold: '0s' });
  tab.say('both');
  const id = await tab.isAsked('write_note');
  await tab.rests();
  expect(runs).toBe(0);
  await tab.chat.addToolApprovalResponse({ id, approved: true });
  await tab.reads('Both.');
  await world.agrees(tab);
  expect(runs).toBe(1);
});

test('an answer of a page whose server is away for a moment arrives', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'ask_user', input: {} }), says('So you are Ann.'));
  const tab = world.tab({ tools: ASK_USER });
  tab.say('who am I?');
  const { toolCallId } = await tab.shows('ask_user', 'input-available');
  await world.server.kill();
  const answered = tab.chat.addToolOutput({ tool: 'ask_user', toolCallId, output: 'Ann' });
  await until(() => tab.count(answer) > 0, 'the answer to be sent');
  await world.server.start();
  await answered;
  await tab.reads('So you are Ann.');
  await world.agrees(tab);
});

test('a "yes" names what the page shows, and decides about it', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'write_note', input: NOTE }), says('Written.'));
  const tab = world.tab();
  tab.say('write');
  const id = await tab.isAsked('write_note');
  tab.say('yes');
  await tab.reads('Written.');
  await world.agrees(tab);
  expect(tab.said.at(-1)).toMatchObject({ decides: [id] });
  expect(tab.said[0]).not.toHaveProperty('decides');
  expect(tab.chat.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
  expect(tab.errors).toEqual([]);
});

test('a "yes" that comes too late gives its words back, and the page shows what waits now', async () => {
  world = await World.create();
  world.model.script(
    calls({ name: 'write_note', input: NOTE }),
    calls({ name: 'write_note', input: { title: 'Bread', body: 'buy bread' } }),
    says('Written.'),
  );
  const tab = world.tab();
  tab.say('write');
  const first = await tab.isAsked('write_note');
  // Nothing reaches the page while somebody else decides.
  let release = () => {};
  tab.before = (request) =>
    request === post ? new Promise((resolve) => (release = resolve)) : Promise.resolve();
  tab.say('yes');
  await tab.tell({ approvalId: first, approved: true });
  const waiting = async () => {
    const { pending } = await world.view(tab.id);
    return pending.map(({ approvalId }) => approvalId).find((id) => id !== undefined && id !== first);
  };
  await until(async () => (await waiting()) !== undefined, 'the second question');
  tab.before = () => Promise.resolve();
  release();
  await until(() => tab.chat.givenBack.get() !== undefined, 'the words');
  expect(tab.chat.givenBack.get()).toMatchObject({
    message: { parts: [{ type: 'text', text: 'yes' }] },
    error: { status: 409, code: 'decision_is_stale' },
  });
  const second = String(await waiting());
  await until(() => JSON.stringify(tab.chat.messages).includes(second), 'the second question on the page');
  expect(tab.chat.messages.filter(({ role }) => role === 'user')).toHaveLength(1);
  tab.say('yes');
  await tab.reads('Written.');
  expect(tab.chat.givenBack.get()).toBeUndefined();
  await world.agrees(tab);
});
