// The chats of the server as assistant-ui's list of threads, and what can be done to messages.

import { expect, test } from 'vitest';
import { calls, gate, says, until } from '../world';
import { open, start, world } from './start';
import { frontend, type AssistantTab } from './tab';

const titles = (tab: AssistantTab) =>
  tab.runtime.threads.getState().threadIds.map((id) => tab.runtime.threads.getItemById(id).getState().title);

/** What the server has. */
async function listed() {
  const response = await fetch(`${world.server.url}/api/chats`);
  const { chats } = (await response.json()) as { chats: { id: string; title: string }[] };
  return chats;
}

test('a first message begins a chat, and the list has it with the title that the server has', async () => {
  await start();
  world.model.script(says('Hi.'));
  const tab = open();
  await tab.say(
    '  Hello there,\nI have a question that is much longer than what fits into the title of a chat, as it happens  ',
  );
  await tab.reads('Hi.');
  await tab.agrees();
  const [chat] = await listed();
  expect(tab.chat.id).toBe(chat?.id);
  expect(tab.shown.at(-1)).toBe(chat?.id);
  await until(
    () => titles(tab)[0] === chat?.title,
    () => `the title; it is ${JSON.stringify(titles(tab))}, not ${chat?.title ?? ''}`,
  );
  const other = open();
  await other.begun();
  await until(() => titles(other).length === 1, 'the list');
  expect(titles(other)).toEqual([chat?.title]);
});

test('chats are switched to, begun, and deleted', async () => {
  await start();
  world.model.script(says('One.'), says('Two.'));
  const tab = open();
  await tab.say('first');
  await tab.reads('One.');
  await tab.agrees();
  const first = tab.chat.id;
  await tab.runtime.threads.switchToNewThread();
  await until(() => tab.messages.length === 0, 'a new thread');
  await tab.say('second');
  await tab.reads('Two.');
  await tab.agrees();
  const second = tab.chat.id;
  expect(second).not.toBe(first);
  await tab.runtime.threads.switchToThread(first);
  await tab.reads('One.');
  expect(tab.shown.at(-1)).toBe(first);
  await tab.runtime.threads.getItemById(first).delete();
  await until(async () => (await listed()).length === 1, 'the server to forget it');
  expect((await listed())[0]?.id).toBe(second);
  await until(() => titles(tab).length === 1, 'the list to be without it');
});

test('what is shown can be given from outside, also a chat that the list has not', async () => {
  await start();
  world.model.script(says('One.'));
  const first = open();
  await first.say('first');
  await first.reads('One.');
  await first.agrees();
  const tab = open({ threadId: first.chat.id });
  await tab.begun();
  await tab.reads('One.');
  await tab.agrees();
  expect(tab.count('POST /api/chat')).toBe(0);
  tab.show(undefined);
  await until(() => tab.messages.length === 0, 'a new thread');
  tab.show(first.chat.id);
  await tab.reads('One.');
});

test('a message that is sent before the chat is loaded goes to that chat', async () => {
  await start();
  world.model.script(says('One.'), says('Two.'));
  const first = open();
  await first.say('first');
  await first.reads('One.');
  await first.agrees();
  const { id } = first.chat;
  const loading = gate();
  const tab = open({ threadId: id });
  tab.before = (path) => (path === `/api/chat/${id}?optional=true` ? loading.opened : Promise.resolve());
  await tab.begun();
  await until(() => tab.runtime.threads.mainItem.getState().remoteId === id, 'the thread');
  await tab.say('second');
  await tab.reads('Two.');
  loading.open();
  await tab.reads('One.');
  await tab.agrees();
  expect(tab.messages).toHaveLength(4);
  expect((await listed()).map((chat) => chat.id)).toEqual([id]);
});

test('a chat that the list has not loaded has a title all the same', async () => {
  await start();
  world.model.script(says('One.'), says('Two.'));
  const first = open();
  await first.say('for one');
  await first.reads('One.');
  await first.agrees();
  await first.say('for two');
  await first.reads('Two.');
  await first.agrees();
  const tab = open({ threadId: first.chat.id, newest: 2 });
  tab.before = (path) => (path.startsWith('/api/chats') ? gate().opened : Promise.resolve());
  await tab.begun();
  await tab.reads('Two.');
  expect(tab.words).not.toContain('for one');
  const title = () => tab.runtime.threads.mainItem.getState().title;
  await until(
    () => title() === 'for one',
    () => `the title; it is ${title() ?? 'not there'}`,
  );
});

test('a chat in the background goes on, its tools included', async () => {
  await start();
  const { opened, open: end } = gate();
  world.model.script(calls({ name: 'look', input: {} }), says('I see.'));
  const tab = open({ tools: [frontend('look', () => opened.then(() => 'the sea'))] });
  await tab.say('look');
  await tab.shows('look', () => tab.thread.getState().isRunning);
  const { id } = tab.chat;
  await tab.runtime.threads.switchToNewThread();
  await until(() => tab.messages.length === 0, 'a new thread');
  end();
  await until(async () => !(await world.view(id)).open, 'the run to end');
  await tab.runtime.threads.switchToThread(id);
  await tab.reads('I see.');
  await tab.agrees();
  expect(tab.count('POST /api/chat')).toBe(1);
});

test('a new tab lists all pages of chats', async () => {
  await start();
  world.model.improvise = () => says('Hi.');
  const ids = Array.from({ length: 55 }, (_, index) => `chat-${index}`);
  for (const id of ids) {
    const body = JSON.stringify({ id, messages: [{ role: 'user', content: id }] });
    const response = await fetch(`${world.server.url}/api/chat`, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
    });
    await response.text();
  }
  const tab = open();
  await tab.begun();
  await until(() => titles(tab).length === 50, 'the first page');
  await tab.runtime.threads.loadMore();
  expect(titles(tab)).toEqual(ids.toReversed());
});

test('the list says what it cannot do', async () => {
  await start();
  world.model.script(says('Hi.'));
  const tab = open();
  await tab.say('hello');
  await tab.reads('Hi.');
  const item = tab.runtime.threads.getItemById(tab.runtime.threads.getState().mainThreadId);
  await expect(item.rename('Other')).rejects.toThrow('keeps the title');
  await expect(item.archive()).rejects.toThrow('cannot be archived');
});

test('a message is edited, and an answer made again, in the record, too', async () => {
  await start();
  world.model.script(says('One.'), says('Two.'), says('Edited.'), says('Again.'));
  const tab = open();
  await tab.say('first');
  await tab.reads('One.');
  await tab.agrees();
  await tab.say('second');
  await tab.reads('Two.');
  await tab.agrees();
  const editor = tab.thread.getMessageByIndex(2).composer;
  editor.beginEdit();
  editor.setText('second, but better');
  editor.send();
  await tab.reads('Edited.');
  await tab.agrees();
  expect(world.model.request(3).words).toEqual([
    'user: first',
    'assistant: One.',
    'user: second, but better',
  ]);
  expect(tab.messages).toHaveLength(4);
  tab.thread.getMessageByIndex(3).reload();
  await tab.reads('Again.');
  await tab.agrees();
  expect(world.model.request(4).words).toEqual([
    'user: first',
    'assistant: One.',
    'user: second, but better',
  ]);
  expect(tab.messages).toHaveLength(4);
});

test('a long chat begins with its newest messages, and goes on as a whole', async () => {
  await start();
  const first = open();
  for (const words of ['One.', 'Two.', 'Three.', 'Four.']) {
    world.model.script(says(words));
    await first.say(`for ${words}`);
    await first.reads(words);
    await first.agrees();
  }
  const tab = await open({ threadId: first.chat.id, newest: 3 }).begun();
  await tab.reads('Four.');
  expect(tab.words).toBe('Three. for Four. Four.');
  expect(tab.earlier.count).toBe(5);
  await tab.agrees();

  world.model.script(says('Edited.'), says('Again.'), says('Five.'));
  const editor = tab.thread.getMessageByIndex(1).composer;
  editor.beginEdit();
  editor.setText('for another four');
  editor.send();
  await tab.reads('Edited.');
  await tab.agrees();
  tab.thread.getMessageByIndex(2).reload();
  await tab.reads('Again.');
  await tab.agrees();
  expect(world.model.request(6).words).toEqual([
    ...[
      'user: for One.',
      'assistant: One.',
      'user: for Two.',
      'assistant: Two.',
      'user: for Three.',
      'assistant: Three.',
    ],
    'user: for another four',
  ]);

  tab.earlier.show();
  await tab.reads('for Two.');
  expect(tab.earlier.count).toBe(2);
  await tab.say('for Five.');
  await tab.reads('Five.');
  await tab.agrees();
  tab.earlier.show();
  await tab.reads('One.');
  expect(tab.earlier.count).toBe(0);
  await tab.agrees();
});

test('the first of the messages that are shown can be edited', async () => {
  await start();
  const first = open();
  for (const words of ['One.', 'Two.']) {
    world.model.script(says(words));
    await first.say(`for ${words}`);
    await first.reads(words);
    await first.agrees();
  }
  const tab = await open({ threadId: first.chat.id, newest: 2 }).begun();
  await tab.reads('Two.');
  expect(tab.words).toBe('for Two. Two.');
  world.model.script(says('Edited.'));
  const editor = tab.thread.getMessageByIndex(0).composer;
  editor.beginEdit();
  editor.setText('for another two');
  editor.send();
  await tab.reads('Edited.');
  await tab.agrees();
  expect(world.model.request(3).words).toEqual([
    'user: for One.',
    'assistant: One.',
    'user: for another two',
  ]);
});

test('an id that the server does not know is a chat that is begun under it', async () => {
  await start();
  world.model.script(says('Hi.'));
  const tab = open({ threadId: 'my-own-id' });
  await tab.begun();
  await until(() => tab.runtime.threads.mainItem.getState().remoteId === 'my-own-id', 'the thread');
  await tab.say('hello');
  await tab.reads('Hi.');
  await tab.agrees();
  expect((await listed())[0]?.id).toBe('my-own-id');
});
