// Reading: one stream for the page, over however many connections, tabs and servers; and its end.

import { readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { calls, client, gate, refuses, says, until, version, World } from './world';

let world: World;
afterEach(() => world.end());

const ASK_USER = { ask_user: { inputSchema: { type: 'object' } } };
const NOTE = { title: 'Milk', body: 'buy milk' };

/** What becomes of the requests that post the chat, and only of those. */
const ofPosts = (what: () => Promise<void>) => (request: string) =>
  request === 'POST /api/chat' ? what() : Promise.resolve();

/** A page in which a note waits to be approved, and no stream is read any more. */
async function letGoWithAQuestion() {
  const tab = world.tab({ hold: '0s' });
  tab.open();
  await tab.rests();
  tab.say('write');
  const id = await tab.isAsked('write_note');
  await tab.rests();
  return { tab, id };
}

/** Has the model say "Once upon ", and "a time." when it is let. */
function tellsInTwo() {
  const { opened, open } = gate();
  world.model.script(async (pen) => {
    pen.says('Once ', 'upon ');
    await opened;
    pen.says('a time.');
  });
  return open;
}

test('these tests run with the version that they name', async () => {
  world = await World.create();
  expect(
    'addToolApprovalResponse' in Object.getPrototypeOf(world.tab().chat) || version.startsWith('5.'),
  ).toBe(version.startsWith('5.'));
});

test('a chat that nobody has posted to is empty', async () => {
  world = await World.create();
  const tab = world.tab();
  tab.open();
  await until(() => tab.requests.length > 0, 'the chat to be asked for');
  await tab.rests();
  expect(tab.chat.messages).toEqual([]);
  expect(tab.chat.status).toBe('ready');
  expect(tab.errors).toEqual([]);
});

test('a new chat asks the server for nothing', async () => {
  world = await World.create();
  world.model.script(says('Hello.'));
  const tab = world.tab();
  const leave = tab.chat.open({ isNew: true });
  tab.say('hello');
  await tab.reads('Hello.');
  await world.agrees(tab);
  leave();
  expect(tab.requests).toEqual(['POST /api/chat']);
});

test('a reload in the middle of the words goes on with them', async () => {
  world = await World.create();
  const open = tellsInTwo();
  const before = world.tab();
  before.say('tell');
  await before.reads('upon');
  before.close();
  const tab = world.tab();
  tab.open();
  await tab.reads('Once upon ');
  open();
  await tab.reads('Once upon a time.');
  await world.agrees(tab);
  expect(tab.words.match(/Once/g)).toHaveLength(1);
});

test('a reload while a call waits shows its card, and the answer goes on', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'write_note', input: NOTE }), says('Written.'));
  const before = world.tab();
  before.say('write');
  await before.isAsked('write_note');
  before.close();
  const tab = world.tab();
  tab.open();
  await tab.chat.addToolApprovalResponse({ id: await tab.isAsked('write_note'), approved: true });
  await tab.reads('Written.');
  await world.agrees(tab);
  expect(tab.count('POST /api/chat')).toBe(0);
});

test('a reload after the stream was let go shows the card, and the answer goes on', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'write_note', input: NOTE }), says('Written.'));
  const before = world.tab({ hold: '0s' });
  before.say('write');
  await before.isAsked('write_note');
  await before.rests();
  before.close();
  const tab = world.tab();
  tab.open();
  await tab.chat.addToolApprovalResponse({ id: await tab.isAsked('write_note'), approved: true });
  await tab.reads('Written.');
  await world.agrees(tab);
});

test('a connection that breaks in the middle of the words is taken up where it broke', async () => {
  world = await World.create();
  const open = tellsInTwo();
  const tab = world.tab();
  tab.say('tell');
  await tab.reads('upon');
  tab.cut();
  await until(
    () => tab.connections.at(-1) === 'open' && tab.connections.includes('reconnecting'),
    'a new connection',
  );
  open();
  await tab.reads('Once upon a time.');
  await world.agrees(tab);
  expect(tab.words).toBe('tellOnce upon a time.');
  expect(tab.errors).toEqual([]);
  expect(tab.connections).toEqual(['open', 'reconnecting', 'open', 'closed']);
});

test('a connection that says nothing counts as broken', async () => {
  world = await World.create();
  const open = tellsInTwo();
  const tab = world.tab({ silence: 300 });
  tab.say('tell');
  await until(() => tab.connections.includes('reconnecting'), 'the silence to be noticed');
  open();
  await tab.reads('Once upon a time.');
  await world.agrees(tab);
  expect(tab.words).toBe('tellOnce upon a time.');
});

test('what was said while the page was away is there when it comes back', async () => {
  world = await World.create();
  const open = tellsInTwo();
  const tab = world.tab();
  tab.say('tell');
  await tab.reads('upon');
  tab.isOffline = true;
  tab.cut();
  open();
  await until(
    async () => !(await world.view()).open && (await world.view()).messages.length === 2,
    'the run to end',
  );
  tab.isOffline = false;
  await tab.reads('Once upon a time.');
  await world.agrees(tab);
  expect(tab.words).toBe('tellOnce upon a time.');
  expect(tab.errors).toEqual([]);
});

test('a call that began to wait while the page was away has its card when it comes back', async () => {
  world = await World.create();
  const { opened, open } = gate();
  world.model.script(async (pen) => {
    pen.says('Let me ask.');
    await opened;
    pen.calls({ name: 'write_note', input: NOTE });
  }, says('Written.'));
  const tab = world.tab({ hold: '0s' });
  tab.say('write');
  await tab.reads('Let me ask.');
  tab.isOffline = true;
  tab.cut();
  open();
  await until(async () => (await world.view()).pending.length === 1, 'the call to wait');
  tab.isOffline = false;
  const id = await until(async () => (await world.view()).pending[0]?.approvalId, 'a question');
  await tab.shows('write_note', client > 5 ? 'approval-requested' : 'input-available');
  await tab.rests();
  await tab.chat.addToolApprovalResponse({ id, approved: true });
  await tab.reads('Written.');
  await world.agrees(tab);
});

for (const how of ['kill', 'end'] as const) {
  test(`after a restart of the server (${how}), a call goes on waiting, and its answer goes on`, async () => {
    world = await World.create();
    world.model.script(calls({ name: 'ask_user', input: {} }), says('So you are Ann.'));
    const tab = world.tab({ tools: ASK_USER });
    tab.say('who am I?');
    await tab.shows('ask_user', 'input-available');
    await world.server[how]();
    await world.server.start();
    await until(
      () => tab.chat.status === 'streaming' && tab.chat.connection === 'open',
      'the stream to be followed again',
    );
    const { toolCallId } = await tab.shows('ask_user', 'input-available');
    await tab.chat.addToolOutput({ tool: 'ask_user', toolCallId, output: 'Ann' });
    await tab.reads('So you are Ann.');
    await world.agrees(tab);
    expect(tab.count('POST /api/chat')).toBe(1);
    expect(tab.chat.statuses).toEqual(['ready', 'submitted', 'streaming', 'ready']);
  });
}

test('a second tab follows, and an answer given in one closes the card in the other', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'ask_user', input: {} }), says('So you are Ann.'));
  const first = world.tab({ tools: ASK_USER });
  first.open();
  first.say('who am I?');
  await first.shows('ask_user', 'input-available');
  const second = world.tab({ tools: ASK_USER });
  second.open();
  const { toolCallId } = await second.shows('ask_user', 'input-available');
  await second.chat.addToolOutput({ tool: 'ask_user', toolCallId, output: 'Ann' });
  for (const tab of [first, second]) {
    await tab.reads('So you are Ann.');
    await world.agrees(tab);
  }
});

test('a tab whose stream was let go learns of what another one begins', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'write_note', input: NOTE }), says('Written.'), says('Again.'));
  const first = world.tab({ hold: '0s' });
  first.open();
  await first.rests();
  first.say('write');
  await first.isAsked('write_note');
  await first.rests();
  const second = world.tab({ hold: '0s' });
  second.open();
  const id = await second.isAsked('write_note');
  await second.rests();
  await second.chat.addToolApprovalResponse({ id, approved: true });
  await second.reads('Written.');
  await first.reads('Written.');
  await first.rests();
  await second.rests();
  first.say('more');
  await second.reads('Again.');
  await world.agrees(first);
  await world.agrees(second);
});

test('a page that is left reads no more, and goes on when it is opened again', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'write_note', input: NOTE }), says('Written.'));
  const before = world.tab();
  before.say('write');
  const id = await before.isAsked('write_note');
  before.close();
  const tab = world.tab();
  const leave = tab.chat.open();
  await tab.isAsked('write_note');
  leave();
  await tab.rests();
  // As React's strict mode does.
  tab.chat.open()();
  tab.open();
  await until(() => tab.chat.status === 'streaming', 'the run to be followed');
  await tab.chat.addToolApprovalResponse({ id, approved: true });
  await tab.reads('Written.');
  await world.agrees(tab);
});

test('a message that was sent just before the page was left arrives', async () => {
  world = await World.create();
  world.model.script(says('Hello.'));
  const tab = world.tab();
  const leave = tab.chat.open({ isNew: true });
  const { opened, open } = gate();
  tab.before = () => opened;
  tab.say('hello');
  await until(() => tab.count('POST /api/chat') === 1, 'the message to be sent');
  leave();
  open();
  await tab.rests();
  expect(tab.words).toBe('hello');
  tab.open();
  await tab.reads('Hello.');
  await world.agrees(tab);
});

test('what is shown stays until the stream that goes on with it is there', async () => {
  world = await World.create();
  const { opened, open } = gate();
  world.model.script(calls({ name: 'write_note', input: NOTE }), async (pen) => {
    await opened;
    pen.says('Written.');
  });
  const tab = world.tab({ hold: '0s' });
  tab.say('write');
  const approvalId = await tab.isAsked('write_note');
  await tab.rests();
  await tab.tell({ approvalId, approved: true });
  await until(() => world.model.requests.length === 2, 'the model to be asked again');
  let shown: string[] = [];
  tab.before = (request) => {
    if (request === 'GET /api/chat/stream') shown = tab.parts.map((part) => part.type);
    return Promise.resolve();
  };
  const refreshed = tab.chat.refresh();
  await until(() => tab.chat.status === 'streaming', 'the run to be followed');
  open();
  await refreshed;
  expect(shown).toContain('tool-write_note');
  await world.agrees(tab);
  expect(tab.words).toBe('writeWritten.');
});

for (const where of ['in the same browser', 'elsewhere'] as const) {
  test(`a tab whose run is left behind by a message of another one ${where} follows the new run`, async () => {
    world = await World.create();
    const { opened, open } = gate();
    world.model.script(calls({ name: 'write_note', input: NOTE }), async (pen) => {
      pen.says('Very ', 'well.');
      await opened;
      pen.says(' Bye.');
    });
    const first = world.tab();
    first.open();
    await first.rests();
    first.say('write');
    await first.isAsked('write_note');
    const second = world.tab();
    if (where === 'elsewhere') void second.chat.refresh();
    else second.open();
    await second.isAsked('write_note');
    second.say('never mind');
    await first.reads('Very well.');
    await first.shows('write_note', 'output-error');
    open();
    for (const tab of [first, second]) {
      await tab.reads(' Bye.');
      await world.agrees(tab);
    }
  });
}

test('stop ends a run that speaks', async () => {
  world = await World.create();
  const { opened, open } = gate();
  world.model.script(async (pen) => {
    pen.says('Once ', 'upon ');
    await Promise.race([opened, pen.gone]);
  });
  const tab = world.tab();
  tab.say('tell');
  await tab.reads('upon');
  await tab.chat.stop();
  open();
  expect((await world.view()).open).toBe(false);
  await world.agrees(tab);
  expect(tab.count('POST /api/chat')).toBe(1);
});

test('stop ends a run that waits, on the stream and after it', async () => {
  for (const hold of ['1h', '0s']) {
    world = await World.create();
    world.model.script(calls({ name: 'write_note', input: NOTE }));
    const tab = world.tab({ hold });
    tab.say('write');
    await tab.isAsked('write_note');
    if (hold === '0s') await tab.rests();
    await tab.chat.stop();
    const view = await world.view();
    expect(view).toMatchObject({ open: false, pending: [] });
    await world.agrees(tab);
    expect(tab.count('POST /api/chat')).toBe(1);
    if (hold === '1h') await world.end();
  }
});

test('stop where nothing runs is harmless, and the chat goes on', async () => {
  world = await World.create();
  world.model.script(says('One.'), says('Two.'));
  const tab = world.tab();
  await tab.chat.stop();
  tab.say('go');
  await tab.reads('One.');
  await tab.rests();
  await tab.chat.stop();
  tab.say('on');
  await tab.reads('Two.');
  await world.agrees(tab);
});

test('what the server refuses is shown, and the chat goes on', async () => {
  world = await World.create();
  world.model.script(says('One.'));
  const tab = world.tab({ tools: { write_note: { inputSchema: { type: 'object' } } } });
  tab.say('go');
  await until(() => tab.chat.status === 'error', 'an error');
  expect(tab.chat.error).toMatchObject({ name: 'FermataError', status: 422, code: 'tool_name_taken' });
  expect(tab.chat.error?.message).toMatch(/^[^{}]*write_note[^{}]*$/);
  await until(() => tab.errors.length === 1, 'the page to be told');
  const other = world.tab({}, 'chat-2');
  other.say('go');
  await other.reads('One.');
});

test('a page waits for its server for as long as it takes, and says that it does', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'ask_user', input: {} }), says('So you are Ann.'));
  const tab = world.tab({ tools: ASK_USER });
  tab.say('who am I?');
  const { toolCallId } = await tab.shows('ask_user', 'input-available');
  await world.server.end();
  await until(() => tab.count('GET /api/chat/stream') > 2, 'some attempts');
  expect(tab.connections.at(-1)).toBe('reconnecting');
  expect(tab.errors).toEqual([]);
  await world.server.start();
  await until(() => tab.connections.at(-1) === 'open', 'the stream to be followed again');
  await tab.shows('ask_user', 'input-available');
  await tab.chat.addToolOutput({ tool: 'ask_user', toolCallId, output: 'Ann' });
  await tab.reads('So you are Ann.');
  await world.agrees(tab);
});

test('a run that is let go while the page is about to follow it leaves its call to the page', async () => {
  world = await World.create();
  const { opened, open } = gate();
  world.model.script(async (pen) => {
    pen.says('Let me see.');
    await opened;
    pen.calls({ name: 'look', input: {} });
  }, says('I see.'));
  let runs = 0;
  const tools = { look: { inputSchema: { type: 'object' }, execute: () => ++runs } };
  const before = world.tab({ tools: { look: { inputSchema: { type: 'object' } } }, hold: '0s' });
  before.say('look');
  await before.reads('Let me see.');
  const tab = world.tab({ tools, hold: '0s' });
  tab.before = async (request) => {
    if (request !== 'GET /api/chat/stream' || tab.count(request) > 1) return;
    open();
    await until(async () => !(await world.view()).open, 'the run to be let go');
  };
  tab.open();
  await tab.reads('I see.');
  await world.agrees(tab);
  expect(runs).toBe(1);
  expect(tab.count('GET /api/chat/stream')).toBe(1);
});

test('a call that was answered while the page was away does not run when it comes back', async () => {
  world = await World.create();
  const { opened, open } = gate();
  world.model.script(async (pen) => {
    pen.says('Let me see.');
    await opened;
    pen.calls({ name: 'look', input: {} });
  }, says('I see.'));
  let runs = 0;
  const tab = world.tab({ tools: { look: { inputSchema: { type: 'object' }, execute: () => ++runs } } });
  tab.say('look');
  await tab.reads('Let me see.');
  tab.isOffline = true;
  tab.cut();
  open();
  const call = await until(async () => (await world.view()).pending[0]?.toolCallId, 'the call to wait');
  await tab.tell({ toolCallId: call, output: 'by somebody else' });
  await until(async () => !(await world.view()).open, 'the run to end');
  tab.isOffline = false;
  await tab.reads('I see.');
  await world.agrees(tab);
  expect(runs).toBe(0);
});

test('a new message while a call waits closes its card', async () => {
  world = await World.create();
  const { opened, open } = gate();
  world.model.script(calls({ name: 'write_note', input: NOTE }), async (pen) => {
    pen.says('Very ', 'well.');
    await opened;
  });
  const tab = world.tab();
  tab.say('write');
  await tab.isAsked('write_note');
  tab.say('never mind');
  await tab.reads('Very well.');
  // While the new answer is still being written.
  await tab.shows('write_note', 'output-error');
  open();
  await world.agrees(tab);
  expect(tab.chat.messages).toHaveLength(4);
});

test('a new message while an answer is written leaves that answer once, and whole', async () => {
  world = await World.create();
  const { opened, open } = gate();
  world.model.script(async (pen) => {
    pen.says('Once ', 'upon ');
    await opened;
    pen.says('a time.');
    await pen.gone;
  }, says('Very well.'));
  const tab = world.tab();
  tab.say('tell');
  await tab.reads('upon ');
  const ids = () => tab.chat.messages.map(({ id }) => id);
  // The page has shown the message already. While the post is on its way, more of the answer comes.
  tab.before = ofPosts(async () => {
    open();
    const { body } = await fetch(`${world.server.url}/api/chat/${tab.id}/stream`);
    const reader = (body ?? new ReadableStream()).pipeThrough(new TextDecoderStream()).getReader();
    for (let read = ''; !read.includes('a time.');) read += (await reader.read()).value ?? '';
    await reader.cancel();
    expect(new Set(ids()).size).toBe(ids().length);
  });
  tab.say('stop that');
  await tab.reads('Very well.');
  expect(new Set(ids()).size).toBe(ids().length);
  await world.agrees(tab);
  expect(tab.words).toBe('tellOnce upon a time.stop thatVery well.');
});

for (const moment of ['before', 'after'] as const) {
  test(`an answer given while the page looks for its server, ${moment} it is back, arrives and goes on`, async () => {
    world = await World.create();
    world.model.script(calls({ name: 'write_note', input: NOTE }), says('Written.'));
    const tab = world.tab();
    tab.open();
    await tab.rests();
    tab.say('write');
    const id = await tab.isAsked('write_note');
    await world.server.end();
    const answer = () => tab.chat.addToolApprovalResponse({ id, approved: true });
    const early = moment === 'before' ? answer() : undefined;
    await world.server.start();
    await (early ?? answer());
    await tab.reads('Written.');
    await tab.shows('write_note', 'output-available');
    await world.agrees(tab);
  });
}

test(
  'a message that was refused while a call waits stays, with the reason, and the call can ' +
    'still be answered',
  async () => {
    world = await World.create({ FERMATA_MAX_BODY: '20KB' });
    world.model.script(calls({ name: 'write_note', input: NOTE }), says('Written.'));
    const tab = world.tab();
    tab.open();
    await tab.rests();
    tab.say('write');
    const id = await tab.isAsked('write_note');
    tab.say('x'.repeat(30_000));
    await until(() => tab.errors.length === 1, 'the page to be told');
    expect(tab.chat.error).toMatchObject({ name: 'FermataError', status: 413 });
    // What another tab says must not take the words away either.
    void tab.chat.refresh();
    await until(() => tab.count('GET /api/chat') > 0, 'the chat to have been asked for');
    expect(tab.chat.messages.at(-1)?.role).toBe('user');
    expect(tab.words).toContain('xxx');
    await tab.tell({ approvalId: id, approved: true });
    await tab.reads('Written.');
    // What was not sent comes back behind what was.
    await until(
      () => tab.chat.messages.at(-1)?.role === 'user' && tab.chat.status === 'error',
      () => `the words; ${tab.outline}`,
    );
    expect(tab.chat.error).toMatchObject({ name: 'FermataError', status: 413 });
    const { messages } = await world.view();
    expect(tab.chat.messages.map((message) => message.id).slice(0, -1)).toEqual(
      messages.map((message) => message.id),
    );
    expect(tab.words).toMatch(/Written\.x+$/);
    // One that is too long is not in the way of the next.
    world.model.script(says('Short and good.'));
    tab.say('in short');
    await tab.reads('Short and good.');
  },
);

test('a history that the server has not heard of is handed over, and after that only what is new', async () => {
  world = await World.create();
  world.model.script(says('Hello Ann.'), says('Still Ann.'), says('Ann, as ever.'));
  const tab = world.tab();
  tab.chat.messages = [
    { id: 'u1', role: 'user', parts: [{ type: 'text', text: 'I am Ann.' }] },
    { id: 'a1', role: 'assistant', parts: [{ type: 'text', text: 'Hello.' }] },
  ];
  tab.say('who am I?');
  await tab.reads('Hello Ann.');
  await tab.rests();
  tab.say('and now?');
  await tab.reads('Still Ann.');
  await tab.rests();
  await tab.chat.regenerate();
  await tab.reads('Ann, as ever.');
  await world.agrees(tab);
  expect(tab.posted).toEqual([3, 1, 1]);
  expect(world.model.request(3).messages.filter(({ role }) => role === 'user')).toHaveLength(3);
});

test('a message that did not get through stays, with the reason', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'write_note', input: NOTE }), says('Written.'));
  const { tab, id } = await letGoWithAQuestion();
  tab.before = ofPosts(() => Promise.reject(new TypeError('fetch failed')));
  tab.say('never mind');
  await until(() => tab.errors.length === 1, 'the page to be told');
  await tab.chat.refresh();
  expect(tab.chat.status).toBe('error');
  expect(tab.words).toBe('writenever mind');
  // The call behind it can still be decided, and the message sent after that.
  await tab.chat.addToolApprovalResponse({ id, approved: true });
  await tab.reads('Written.');
  await until(
    () => tab.words.endsWith('never mind') && tab.chat.status === 'error',
    () => `the words; ${tab.outline}`,
  );
  expect(tab.chat.error?.message).toBe('fetch failed');
  tab.before = () => Promise.resolve();
  world.model.script(says('All right.'));
  await tab.chat.regenerate();
  await tab.reads('never mindAll right.');
  expect(tab.chat.error).toBeUndefined();
  await world.agrees(tab);
});

test('words that wait for the network outlast the error of a run that goes on meanwhile', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'write_note', input: NOTE }), refuses(401), says('As you like.'));
  const { tab, id } = await letGoWithAQuestion();
  let goOnline = () => {};
  const isOnline = new Promise<void>((resolve) => (goOnline = resolve));
  let posts = 0;
  // A message that the server can tell it lacks is posted three times only.
  tab.before = ofPosts(() => (posts++ === 0 ? Promise.reject(new TypeError('fetch failed')) : isOnline));
  tab.say('never mind');
  await until(() => posts === 2 && tab.chat.unsent.get() !== undefined, 'the message to wait');
  await tab.chat.addToolApprovalResponse({ id, approved: true });
  await until(async () => world.model.requests.length === 2 && !(await world.view()).open, 'the run to fail');
  expect(tab.words).toContain('never mind');
  goOnline();
  await tab.reads('As you like.');
  expect(tab.words).toBe('writenever mindAs you like.');
});

test('words that are stopped on their way to the server stay', async () => {
  world = await World.create();
  world.model.script(says('Hello.'));
  const tab = world.tab();
  tab.open();
  tab.say('hello');
  await tab.reads('Hello.');
  await tab.rests();
  tab.before = ofPosts(() => new Promise(() => {}));
  tab.say('never mind');
  await until(() => tab.count('POST /api/chat') === 2, 'the message to be on its way');
  await tab.chat.stop();
  await tab.rests();
  expect(tab.words).toBe('helloHello.never mind');
  expect(tab.chat.status).toBe('ready');
});

test('stop while a call waits and a message is on its way ends both, and the words stay', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'write_note', input: NOTE }));
  const tab = world.tab();
  tab.open();
  await tab.rests();
  tab.say('write');
  await tab.isAsked('write_note');
  tab.before = ofPosts(() => new Promise(() => {}));
  tab.say('never mind');
  await until(() => tab.count('POST /api/chat') === 2, 'the message to be on its way');
  await tab.chat.stop();
  await tab.rests();
  expect(tab.words).toBe('writenever mind');
  expect(tab.chat.messages.at(-1)?.role).toBe('user');
  expect((await world.view()).messages).toHaveLength(2);
  expect((await world.view()).pending).toEqual([]);
});

test('words that the person goes on without do not come back', async () => {
  world = await World.create({ FERMATA_MAX_BODY: '20KB' });
  world.model.script(says('Hello.'), says('Hello again.'));
  const tab = world.tab();
  tab.open();
  await tab.rests();
  tab.say('hello');
  await tab.reads('Hello.');
  await tab.rests();
  tab.say('x'.repeat(30_000));
  await until(() => tab.errors.length === 1, 'the page to be told');
  await tab.chat.sendMessage({ text: 'good day', messageId: tab.chat.messages[0]?.id ?? '' });
  await tab.reads('Hello again.');
  await tab.rests();
  await tab.chat.refresh();
  await world.agrees(tab);
  expect(tab.chat.status).toBe('ready');
  expect(tab.words).toBe('good dayHello again.');
});

test('an edit that did not get through is what is tried again', async () => {
  world = await World.create();
  world.model.script(says('Hello.'), says('Good day to you.'));
  const tab = world.tab();
  tab.open();
  await tab.rests();
  tab.say('hello');
  await tab.reads('Hello.');
  await tab.rests();
  tab.before = ofPosts(() => Promise.reject(new TypeError('fetch failed')));
  await tab.chat.sendMessage({ text: 'good day', messageId: tab.chat.messages[0]?.id ?? '' });
  expect(tab.chat.status).toBe('error');
  await tab.chat.refresh();
  expect(tab.words).toBe('good day');
  tab.before = () => Promise.resolve();
  await tab.chat.regenerate();
  await tab.reads('Good day to you.');
  await world.agrees(tab);
  expect(tab.words).toBe('good dayGood day to you.');
});

test('an answer that comes too late behind words that were not sent shows what became of the call', async () => {
  world = await World.create();
  world.model.script(
    calls({ name: 'write_note', input: NOTE }),
    calls({ name: 'write_note', input: { ...NOTE, title: 'Tea' } }),
  );
  const { tab, id } = await letGoWithAQuestion();
  tab.before = ofPosts(() => Promise.reject(new TypeError('fetch failed')));
  tab.say('never mind');
  await until(() => tab.errors.length === 1, 'the page to be told');
  await tab.tell({ approvalId: id, approved: true });
  await until(
    async () => (await world.view()).pending.some(({ approvalId }) => approvalId !== id),
    'the next question',
  );
  await expect(tab.chat.addToolApprovalResponse({ id, approved: false })).rejects.toMatchObject({
    code: 'already_answered',
  });
  await until(
    () => tab.parts.filter((part) => part.type === 'tool-write_note').length === 2,
    () => `both calls; ${tab.outline}`,
  );
  await until(
    () => tab.words.endsWith('never mind') && tab.chat.status === 'error',
    () => `the words; ${tab.outline}`,
  );
});

test('a chat that the server has lost goes on with what the page has of it', async () => {
  world = await World.create();
  world.model.script(says('Hello Ann.'), says('Still Ann.'));
  const tab = world.tab();
  tab.say('I am Ann.');
  await tab.reads('Hello Ann.');
  await tab.rests();
  await world.server.kill();
  for (const file of readdirSync(world.server.folder).filter((name) => name.startsWith('chats.db')))
    rmSync(path.join(world.server.folder, file));
  await world.server.start();
  tab.say('who am I?');
  await tab.reads('Still Ann.');
  await world.agrees(tab);
  expect(tab.posted).toEqual([1, 1, 3]);
});

test('a chat that was deleted elsewhere stays deleted, and the page learns of it', async () => {
  world = await World.create();
  world.model.script(says('Hello Ann.'));
  const tab = world.tab();
  tab.say('I am Ann.');
  await tab.reads('Hello Ann.');
  await tab.rests();
  const url = `${world.server.url}/api/chat/${tab.id}`;
  expect((await fetch(url, { method: 'DELETE' })).status).toBe(204);
  tab.say('who am I?');
  await until(() => tab.errors.length > 0, 'the page to be told');
  expect(tab.errors[0]).toMatchObject({ status: 410, code: 'deleted' });
  expect((await fetch(url)).status).toBe(404);
});

test('what the AI SDK cannot read is told, and not asked for without end', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'look', input: {} }));
  const onToolCall = () => {
    throw new Error('not in this page');
  };
  const tab = world.tab({ tools: { look: { inputSchema: { type: 'object' } } }, onToolCall });
  tab.say('look');
  await until(() => tab.errors.length > 0, 'the page to be told');
  expect(tab.chat.error?.message).toBe('not in this page');
  expect(tab.count('GET /api/chat/stream')).toBeLessThan(5);
  await until(() => tab.chat.connection === 'closed', 'the connection to be let go');
});

test('a chat that was asked for before an answer and comes after it does not take the answer back', async () => {
  world = await World.create();
  world.model.script(
    calls({ name: 'ask_user', input: { n: 1 } }, { name: 'ask_user', input: { n: 2 } }),
    says('Both.'),
  );
  const tab = world.tab({ tools: ASK_USER, hold: '0s' });
  tab.say('two questions');
  await until(
    () => tab.parts.filter((part) => part.state === 'input-available').length === 2,
    'two questions',
  );
  await tab.rests();
  const [first, second] = tab.parts
    .filter((part) => part.state === 'input-available')
    .map((part) => part.toolCallId ?? '');
  const { opened, open } = gate();
  const asked = gate();
  tab.after = async (request) => {
    if (request !== 'GET /api/chat') return;
    asked.open();
    await opened;
  };
  void tab.chat.refresh();
  await asked.opened;
  await tab.chat.addToolOutput({ tool: 'ask_user', toolCallId: first ?? '', output: 1 });
  open();
  await until(() => tab.count('GET /api/chat') === 2, 'the chat to be asked for again');
  await tab.rests();
  await tab.shows('ask_user', 'output-available');
  await tab.chat.addToolOutput({ tool: 'ask_user', toolCallId: second ?? '', output: 2 });
  await tab.reads('Both.');
  await world.agrees(tab);
});

test('a connection that breaks before anything of a continued message has come doubles nothing', async () => {
  world = await World.create();
  const { opened, open } = gate();
  world.model.script(calls({ name: 'ask_user', input: {} }), async (pen) => {
    await opened;
    pen.says('So you are Ann.');
  });
  const tab = world.tab({ tools: ASK_USER, hold: '0s' });
  tab.say('who am I?');
  const { toolCallId } = await tab.shows('ask_user', 'input-available');
  await tab.rests();
  tab.after = (request) => {
    if (request === 'POST /api/chat')
      setTimeout(() => {
        tab.cut();
      }, 50);
    return Promise.resolve();
  };
  await tab.chat.addToolOutput({ tool: 'ask_user', toolCallId, output: 'Ann' });
  await until(
    () => tab.count('GET /api/chat/stream') > 0 || tab.count('GET /api/chat') > 0,
    'the chat to be asked for',
  );
  open();
  await tab.reads('So you are Ann.');
  await world.agrees(tab);
  expect(tab.parts.filter((part) => part.toolCallId === toolCallId)).toHaveLength(1);
});

test('a stop while the server is away does not make the person wait, and is told when it is back', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'write_note', input: NOTE }));
  const tab = world.tab();
  tab.open();
  await tab.rests();
  tab.say('write');
  await tab.isAsked('write_note');
  await world.server.kill();
  const stopped = tab.chat.stop();
  await until(() => tab.chat.status === 'ready', 'the page to be at rest');
  await world.server.start();
  await stopped;
  expect(await world.view()).toMatchObject({ open: false, pending: [] });
  await world.agrees(tab);
});

test('a chat that is opened twice is followed until both have left', async () => {
  world = await World.create();
  const open = tellsInTwo();
  const tab = world.tab();
  const leaveOne = tab.chat.open({ isNew: true });
  const leaveOther = tab.chat.open({ isNew: true });
  tab.say('tell');
  await tab.reads('upon');
  leaveOne();
  leaveOne();
  open();
  await tab.reads('Once upon a time.');
  await world.agrees(tab);
  leaveOther();
});

test('a page that fails when its connection changes does not stop its chat', async () => {
  world = await World.create();
  world.model.script(says('Hello.'));
  const tab = world.tab({
    onConnection: () => {
      throw new Error('a mistake of the page');
    },
  });
  tab.say('hello');
  await tab.reads('Hello.');
  await world.agrees(tab);
});
