// The assistants that a server offers, and how a page chooses one.

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { fermata, FermataTransport } from '../src/index.js';
import { MemoryChat, says, until, World } from './world';

const SETTINGS = `
instructions = "HOUSE"
[models.fast]
[models.large]
[assistants.support]
title = "Support"
instructions = "SUPPORT"
models = ["fast", "large"]
suggestions = ["Where is my order?"]
`;

let folder: string;
let world: World;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'fermata-'));
  const file = path.join(folder, 'fermata.toml');
  await writeFile(file, SETTINGS);
  world = await World.create({ FERMATA_CONFIG: file });
});
afterEach(async () => {
  await world.end();
  await rm(folder, { recursive: true });
});

test('the assistants are listed', async () => {
  const server = fermata({ api: `${world.server.url}/api/chat` });
  expect(await server.assistants()).toEqual([
    { name: 'default', title: 'default', models: ['test-model'], suggestions: [] },
    { name: 'support', title: 'Support', models: ['fast', 'large'], suggestions: ['Where is my order?'] },
  ]);
});

test('a server that has no assistants has an empty list of them', async () => {
  const answer = () => Promise.resolve(new Response('{"code":"not_found","detail":"no"}', { status: 404 }));
  expect(await fermata({ fetch: answer }).assistants()).toEqual([]);
});

test('a page chooses an assistant and a model, from the next message on', async () => {
  world.model.script(says('One.'), says('Two.'), says('Three.'));
  let assistant: string | undefined;
  const transport = new FermataTransport({
    api: `${world.server.url}/api/chat`,
    assistant: () => assistant,
    model: () => (assistant === undefined ? undefined : 'large'),
  });
  const chat = new MemoryChat({ id: 'chosen', transport });
  const record = async () => {
    const response = await fetch(`${world.server.url}/api/chat/chosen`);
    const { assistant, model } = (await response.json()) as { assistant?: string; model?: string };
    return { assistant, model };
  };
  await chat.sendMessage({ text: 'hello' });
  expect(await record()).toEqual({});
  assistant = 'support';
  await chat.sendMessage({ text: 'and now?' });
  expect(await record()).toEqual({ assistant: 'support', model: 'large' });
  assistant = undefined;
  await chat.sendMessage({ text: 'and then?' });
  expect(await record()).toEqual({ assistant: 'support', model: 'large' });
  expect(chat.error).toBeUndefined();
});

test('a chat says which assistant and model it has chosen, when it is loaded and when it is posted', async () => {
  world.model.script(says('One.'), says('Two.'));
  const choices = new Map([['chosen', 'support']]);
  const server = fermata({
    api: `${world.server.url}/api/chat`,
    assistant: (chatId) => choices.get(chatId),
    model: (chatId) => (choices.has(chatId) ? 'large' : undefined),
  });
  const chat = server.chat(MemoryChat, { id: 'chosen' });
  expect(chat.chosen.get()).toEqual({});
  await chat.sendMessage({ text: 'hello' });
  expect(chat.chosen.get()).toEqual({ assistant: 'support', model: 'large' });

  const later = server.chat(MemoryChat, { id: 'chosen' });
  const leave = later.open();
  await until(() => later.messages.length === 2, 'the chat to be loaded');
  expect(later.chosen.get()).toEqual({ assistant: 'support', model: 'large' });
  leave();

  const other = server.chat(MemoryChat, { id: 'other' });
  await other.sendMessage({ text: 'hello' });
  expect(other.chosen.get()).toEqual({});
});

test('an assistant that does not exist is refused in words', async () => {
  const transport = new FermataTransport({ api: `${world.server.url}/api/chat`, assistant: 'suport' });
  const chat = new MemoryChat({ id: 'unknown', transport, onError: () => undefined });
  await chat.sendMessage({ text: 'hello' });
  expect(chat.error?.message).toBe(
    'There is no assistant `suport` (fermata.assistant). There are: default, support.',
  );
});
