// Messages that do not arrive: what counts as sent, what is posted again, and what waits for the network. The server is a stand-in, so that
// anything can answer in its place.

import { expect, test } from 'vitest';
import type { UIMessage } from 'ai';
import { fermata, type FermataChat, type FermataOptions } from '../src/index.js';
import { gate, MemoryChat, until } from './world';

const HTML =
  '<html>\r\n<head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>';

const STREAM = { 'content-type': 'text/event-stream', 'x-vercel-ai-ui-message-stream': 'v1' };

const reply = (body: string | null, status: number, headers: Record<string, string>) => () =>
  new Response(body, { status, headers });

const redirected = () =>
  Object.defineProperty(reply('<p>Sign in</p>', 200, { 'content-type': 'text/html' })(), 'redirected', {
    value: true,
  });

interface Post {
  messages: UIMessage[];
}

/** A server that answers every message with "ok", unless something else is in the way. */
class StandIn {
  /** What answers every request in place of the server. */
  inTheWay: (() => Response) | undefined;
  /** What is done with a post before the server has it. */
  onPost: () => void = () => undefined;
  readonly posts: Post[] = [];
  messages: UIMessage[] = [];

  fetch = async (url: Parameters<typeof fetch>[0], init: RequestInit = {}): Promise<Response> => {
    await Promise.resolve();
    const isPost = init.method === 'POST';
    if (isPost) {
      this.posts.push(JSON.parse(init.body as string) as Post);
      this.onPost();
    }
    if (this.inTheWay !== undefined) return this.inTheWay();
    if (!isPost && (url as string).includes('/stream')) return new Response(null, { status: 204 });
    if (!isPost && this.messages.length === 0) return new Response(null, { status: 204 });
    if (!isPost) return Response.json({ messages: this.messages, pending: [], open: false });
    const { messages } = this.posts.at(-1) as Post;
    const id = `a${this.messages.length}`;
    const answer: UIMessage = { id, role: 'assistant', parts: [{ type: 'text', text: 'ok' }] };
    this.messages = [...this.messages, ...messages, answer];
    const chunks = [
      { type: 'start', messageId: id },
      { type: 'text-start', id: '1' },
      { type: 'text-delta', id: '1', delta: 'ok' },
      { type: 'text-end', id: '1' },
      { type: 'finish' },
    ].map((chunk, place) => `id: run:${place}\ndata: ${JSON.stringify(chunk)}\n\n`);
    return new Response(`${chunks.join('')}data: [DONE]\n\n`, { headers: STREAM });
  };
}

function page(options: FermataOptions = {}) {
  const server = new StandIn();
  const errors: Error[] = [];
  const chat: MemoryChat & FermataChat = fermata({ fetch: server.fetch, ...options }).chat(MemoryChat, {
    id: 'chat',
    onError: (error) => errors.push(error),
  });
  chat.open({ isNew: true });
  return { chat, errors, server };
}

const wordsOf = (messages: readonly UIMessage[]) =>
  messages
    .filter(({ role }) => role === 'user')
    .map(({ parts }) => parts.map((part) => (part.type === 'text' ? part.text : '')).join(''));

const FOREIGN: [string, () => Response][] = [
  ['a sign-in page', reply('<!doctype html><p>Sign in</p>', 200, { 'content-type': 'text/html' })],
  ['a sign-in page after a redirect', redirected],
  ['an empty reply', reply(null, 200, {})],
  ['an empty reply without a content', reply(null, 204, {})],
  ['JSON of another server', reply('{"ok":true}', 200, { 'content-type': 'application/json' })],
  [
    'a stream of another protocol',
    reply('data: {"choices":[]}\n\n', 200, { 'content-type': 'text/event-stream' }),
  ],
  ['a marked reply that is no stream', reply('ok', 200, { ...STREAM, 'content-type': 'text/plain' })],
  ['the error page of a proxy', reply(HTML, 403, { 'content-type': 'text/html' })],
  [
    'JSON of another server that refuses',
    reply('{"error":{"message":"no"}}', 403, { 'content-type': 'application/json' }),
  ],
];

test.each(FOREIGN)('%s is no reply to a message: the words stay, with a reason', async (_, inTheWay) => {
  const { chat, errors, server } = page();
  await chat.sendMessage({ text: 'one' });
  server.inTheWay = inTheWay;
  await chat.sendMessage({ text: 'two' });
  expect(chat.status).toBe('error');
  expect(wordsOf(chat.messages)).toEqual(['one', 'two']);
  expect(errors).toMatchObject([{ code: 'foreign_reply' }]);
  expect(chat.error?.message).not.toMatch(/[<{]/);
  server.inTheWay = undefined;
  await chat.sendMessage();
  expect(wordsOf(server.messages)).toEqual(['one', 'two']);
});

test('a message that met the error page of a proxy is sent again once the server answers', async () => {
  const { chat, errors, server } = page();
  server.inTheWay = reply(HTML, 502, { 'content-type': 'text/html' });
  const sent = chat.sendMessage({ text: 'hello' });
  await until(() => server.posts.length === 1, 'the post');
  server.inTheWay = undefined;
  await sent;
  expect(wordsOf(server.messages)).toEqual(['hello']);
  expect(errors).toEqual([]);
});

test('a page that wants its words back has them, with the reason, and the chat is as it was', async () => {
  const { chat, server } = page({ givesBack: true });
  await chat.sendMessage({ text: 'one' });
  server.inTheWay = FOREIGN[0]?.[1];
  await chat.sendMessage({ text: 'two' });
  expect(wordsOf(chat.messages)).toEqual(['one']);
  const back = chat.givenBack.get();
  expect(wordsOf(back ? [back.message] : [])).toEqual(['two']);
  expect(back?.error).toMatchObject({ code: 'foreign_reply' });
  expect(chat.unsent.get()).toBe(undefined);
  server.inTheWay = undefined;
  await chat.sendMessage({ text: 'three' });
  expect(chat.givenBack.get()).toBe(undefined);
  expect(wordsOf(server.messages)).toEqual(['one', 'three']);
});

test('a plain text of a proxy is shown, if it is short', async () => {
  const { chat, server } = page();
  const plain = { 'content-type': 'text/plain' };
  server.inTheWay = reply('length limit exceeded', 413, plain);
  await chat.sendMessage({ text: 'hello' });
  expect(chat.error?.message).toBe('length limit exceeded');
  server.inTheWay = reply('x'.repeat(10_000), 413, plain);
  await chat.sendMessage({ text: 'hello' });
  expect(chat.error?.message).toMatch(/^Another server answered 413/);
});

const refusal = (status: number, code: string) =>
  reply(JSON.stringify({ status, code, detail: 'No.' }), status, {
    'content-type': 'application/problem+json',
  });

test.each([
  ['the first message of a chat', [], refusal(413, 'too_large')],
  ['the first message of a chat, for its form', [], refusal(422, 'invalid_request')],
  ['a later message', ['hello'], refusal(413, 'too_large')],
])('%s that was refused is not posted again with those that follow', async (_, before, refused) => {
  const { chat, server } = page();
  for (const text of before) await chat.sendMessage({ text });
  server.inTheWay = refused;
  await chat.sendMessage({ text: 'too large' });
  await chat.sendMessage({ text: 'too large as well' });
  server.inTheWay = undefined;
  await chat.sendMessage({ text: 'short' });
  expect(chat.error).toBe(undefined);
  expect(wordsOf(server.posts.at(-1)?.messages ?? [])).toEqual(['short']);
  expect(wordsOf(server.messages)).toEqual([...before, 'short']);
  await chat.sendMessage({ text: 'more' });
  expect(wordsOf(server.messages)).toEqual([...before, 'short', 'more']);
});

const noNetwork = () => {
  throw new TypeError('Failed to fetch');
};

test('a message waits for the network, and is sent once', async () => {
  const { chat, errors, server } = page();
  server.inTheWay = noNetwork;
  const sent = chat.sendMessage({ text: 'hello' });
  await until(() => chat.unsent.get()?.isWaiting === true, 'the message to wait');
  expect(chat.connection).toBe('reconnecting');
  expect(chat.status).toBe('submitted');
  server.inTheWay = undefined;
  await sent;
  expect(wordsOf(server.messages)).toEqual(['hello']);
  expect(chat.unsent.get()).toBe(undefined);
  expect(errors).toEqual([]);
});

test('a message that arrived before the network went is not sent again', async () => {
  const { chat, server } = page();
  const { opened, open } = gate();
  server.onPost = () => {
    const [message] = server.posts.at(-1)?.messages ?? [];
    server.messages = message ? [message] : [];
    server.inTheWay = noNetwork;
    open();
  };
  const sent = chat.sendMessage({ text: 'hello' });
  await opened;
  await until(() => chat.unsent.get()?.isWaiting === true, 'the message to wait');
  server.inTheWay = undefined;
  await sent;
  expect(server.posts).toHaveLength(1);
  expect(wordsOf(server.messages)).toEqual(['hello']);
  expect(chat.unsent.get()).toBe(undefined);
});

test('a message that waits for the network can be stopped, and its words stay', async () => {
  const { chat, errors, server } = page();
  server.inTheWay = noNetwork;
  const sent = chat.sendMessage({ text: 'hello' });
  await until(() => chat.unsent.get()?.isWaiting === true, 'the message to wait');
  void chat.stop().catch(() => undefined);
  await sent;
  expect(chat.status).toBe('ready');
  expect(wordsOf(chat.messages)).toEqual(['hello']);
  expect(chat.unsent.get()).toMatchObject({ isWaiting: false });
  expect(errors).toEqual([]);
});
