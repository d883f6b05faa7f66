// The transport alone, as a page has it that writes `useChat({ transport: new FermataTransport() })`.

import { afterEach, expect, test } from 'vitest';
import { FermataTransport, type FermataOptions } from '../src/index.js';
import { gate, MemoryChat, says, until, version, World } from './world';

let world: World;
afterEach(() => world.end());

/** A page with such a chat, whose connections can be cut. */
function page(options: FermataOptions = {}) {
  const connections = new Set<AbortController>();
  const requests: { request: string; body: unknown }[] = [];
  const transport = new FermataTransport({
    api: `${world.server.url}/api/chat`,
    fetch: (url, init) => {
      const connection = new AbortController();
      connections.add(connection);
      const path = (url as string).slice(world.server.url.length);
      const body: unknown = typeof init?.body === 'string' ? JSON.parse(init.body) : undefined;
      requests.push({ request: `${init?.method ?? 'GET'} ${path}`, body });
      const given = init?.signal;
      const signal = given ? AbortSignal.any([given, connection.signal]) : connection.signal;
      return fetch(url, { ...init, signal });
    },
    ...options,
  });
  const errors: Error[] = [];
  const chat = new MemoryChat({ id: 'alone', transport, onError: (error) => errors.push(error) });
  const words = () =>
    chat.messages
      .flatMap(({ parts }) => parts.map((part) => (part.type === 'text' ? part.text : '')))
      .join('');
  const cut = () => {
    for (const connection of connections) connection.abort(new TypeError('network error'));
    connections.clear();
  };
  return { chat, cut, errors, requests, words };
}

const reads = (words: () => string, expected: string) =>
  until(
    () => words().includes(expected),
    () => `"${expected}"; shown: ${words()}`,
  );

test('it posts what is new, with the version of the AI SDK', async () => {
  world = await World.create();
  world.model.script(says('Hello.'), says('Again.'));
  const { chat, requests, words } = page({ hold: '1m' });
  await chat.sendMessage({ text: 'hello' });
  expect(words()).toBe('helloHello.');
  await chat.sendMessage({ text: 'more' });
  expect(words()).toBe('helloHello.moreAgain.');
  const bodies = requests.map(({ body }) => body as { messages: unknown[]; fermata: object });
  expect(bodies.map(({ messages }) => messages.length)).toEqual([1, 1]);
  expect(bodies[0]?.fermata).toEqual({ client: version, hold: '1m' });
  expect(bodies[1]?.fermata).toEqual({ client: version, hold: '1m', exists: true });
});

test('a connection that breaks is taken up where it broke', async () => {
  world = await World.create();
  const { opened, open } = gate();
  world.model.script(async (pen) => {
    pen.says('Once ', 'upon ');
    await opened;
    pen.says('a time.');
  });
  const { chat, cut, errors, requests, words } = page();
  const sent = chat.sendMessage({ text: 'tell' });
  await reads(words, 'upon ');
  cut();
  await until(() => requests.length > 1, 'the stream to be asked for');
  open();
  await sent;
  expect(words()).toBe('tellOnce upon a time.');
  expect(requests.map(({ request }) => request)).toEqual(['POST /api/chat', 'GET /api/chat/alone/stream']);
  expect(errors).toEqual([]);
});

test('a reload resumes the answer', async () => {
  world = await World.create();
  const { opened, open } = gate();
  world.model.script(async (pen) => {
    pen.says('Once ', 'upon ');
    await opened;
    pen.says('a time.');
  });
  const before = page();
  void before.chat.sendMessage({ text: 'tell' });
  await reads(before.words, 'upon ');
  const { chat, words } = page();
  chat.messages = before.chat.messages.slice(0, 1);
  const resumed = chat.resumeStream();
  await reads(words, 'Once upon ');
  open();
  await resumed;
  expect(words()).toBe('tellOnce upon a time.');
  await chat.resumeStream();
  expect(chat.status).toBe('ready');
});

test('what the server refuses is shown in its words', async () => {
  world = await World.create({ FERMATA_MAX_BODY: '20KB' });
  const { chat, errors } = page();
  await chat.sendMessage({ text: 'x'.repeat(30_000) });
  expect(chat.status).toBe('error');
  expect(errors).toMatchObject([{ name: 'FermataError', status: 413 }]);
  expect(chat.error?.message).not.toContain('{');
});

test('an answer that went on without the page is an error that says so', async () => {
  world = await World.create();
  const { opened, open } = gate();
  world.model.script(async (pen) => {
    pen.says('Once ', 'upon ');
    await opened;
    pen.says('a time.');
  });
  const lost = new AbortController();
  const { chat, errors, words } = page({
    // The run is over when the page comes back.
    fetch: (url, init) =>
      lost.signal.aborted
        ? Promise.resolve(new Response(null, { status: 204 }))
        : fetch(url, { ...init, signal: lost.signal }),
  });
  const sent = chat.sendMessage({ text: 'tell' });
  await reads(words, 'upon ');
  lost.abort(new TypeError('network error'));
  await sent;
  open();
  expect(words()).toBe('tellOnce upon ');
  expect(errors).toMatchObject([{ code: 'stream_lost' }]);
});
