// @ts-check
// `npm run bench`: how long a server takes to take up many parked runs after it was killed, and what they
// cost in memory. RUNS says how many. The machine's speed is measured along with it: as many bare requests by
// the same client are the unit of time.

import { readFileSync } from 'node:fs';
import { EventStream } from '../harness/events.mjs';
import { API_KEY, FakeOpenAi, calls, says } from '../harness/fake-openai.mjs';
import { Postgres } from '../harness/services.mjs';
import { freePort } from '../harness/ports.mjs';
import { Server } from '../harness/server.mjs';
import { until } from '../harness/until.mjs';

const RUNS = Number(process.env.RUNS ?? 10_000);
const AT_ONCE = 32;
const tools = { get_location: { parameters: { type: 'object', properties: {} } } };

const chats = Array.from({ length: RUNS }, (_, place) => `chat-${place}`);
const sample = chats;
/** @type {Map<string, string>} */
const parked = new Map();

/**
 * Does something with each chat, a few at a time.
 *
 * @param {string[]} some
 * @param {(chat: string) => Promise<unknown>} act
 * @returns {Promise<number>} how long it took, in seconds
 */
async function each(some, act) {
  const begin = performance.now();
  const left = some.values();
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (const chat of left) await act(chat);
    }),
  );
  return (performance.now() - begin) / 1000;
}

/**
 * @param {Server} server
 * @param {string} path
 * @param {unknown} [body]
 */
async function request(server, path, body) {
  const posted =
    body === undefined
      ? {}
      : { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
  const response = await fetch(server.url + path, posted);
  const text = await response.text();
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
  return text;
}

/** @param {Server} server @returns {number} resident memory in megabytes */
function memory(server) {
  const status = readFileSync(`/proc/${server.pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
}

/** @param {Server} server */
const parks = (server) => async (/** @type {string} */ chat) => {
  const body = {
    id: chat,
    messages: [{ role: 'user', content: 'where am I?' }],
    tools,
    fermata: { hold: '1h' },
  };
  await reads(
    `${server.url}/api/chat`,
    { body },
    (stream, { chunk } = { id: '', chunk: { type: 'over' } }) => {
      if (chunk.type !== 'tool-input-available') return chunk.type === 'over';
      parked.set(chat, String(chunk.toolCallId));
      stream.leave();
      return true;
    },
  );
  if (!parked.has(chat)) throw new Error(`${chat} was not parked`);
};

/**
 * Reads a stream until it has what it wants; asks at every event, and without one at the end.
 *
 * @param {string} url
 * @param {{ body?: unknown }} request
 * @param {(stream: EventStream, event?: import('../harness/events.mjs').Event) => boolean} wants
 */
async function reads(url, request, wants) {
  await new Promise((resolve, reject) => {
    /** @type {EventStream} */
    let stream;
    const hears = (/** @type {import('../harness/events.mjs').Event | undefined} */ event) =>
      wants(stream, event) && resolve(undefined);
    EventStream.open(url, request, hears).then((opened) => {
      stream = opened;
    }, reject);
  });
}

/** @param {Server} server */
const waits = (server) => async (/** @type {string} */ chat) => {
  const { pending } = JSON.parse(await request(server, `/api/chat/${chat}/pending`));
  if (pending[0]?.id !== parked.get(chat))
    throw new Error(`${chat} does not wait: ${JSON.stringify(pending)}`);
};

/** Answers, and has every tenth one resumed before that. @param {Server} server */
const answers = (server) => async (/** @type {string} */ chat) => {
  const isRead = chat.endsWith('0');
  let done = !isRead;
  const read =
    isRead &&
    reads(`${server.url}/api/chat/${chat}/stream`, {}, (stream, event) => {
      if (event === undefined) done = stream.done;
      return event === undefined;
    });
  await request(server, '/chat/tool-result', { chatId: chat, toolCallId: parked.get(chat), output: 'Bern' });
  await read;
  if (!done) throw new Error(`${chat} was not read to its end`);
};

/** @param {Server} server */
const isOver = (server) => async (/** @type {string} */ chat) =>
  until(
    async () => JSON.parse(await request(server, `/api/chat/${chat}`)).open === false,
    `${chat} to be over`,
  );

/** @param {string} what @param {number} seconds @param {number} unit */
const tell = (what, seconds, unit) =>
  console.log(`${what.padEnd(58)} ${seconds.toFixed(2)} s = ${(seconds / unit).toFixed(2)} units`);

/**
 * @param {Server} server
 * @param {FakeOpenAi} model
 */
async function measure(server, model) {
  await server.start();
  const empty = memory(server);
  await each(chats.slice(0, 1000), () => request(server, '/healthz'));
  const unit = await each(chats, () => request(server, '/healthz'));
  tell(`the unit: ${RUNS} bare requests`, unit, unit);
  tell(`parking ${RUNS} runs`, await each(chats, parks(server)), unit);
  const full = memory(server);
  await server.kill();

  const begin = performance.now();
  await server.start();
  const up = (performance.now() - begin) / 1000;
  const started = memory(server);
  const sampled = await each(sample, waits(server));
  tell('from the start after the kill to the first answer', up, unit);
  tell(`until ${sample.length} of them are known to wait`, up + sampled, unit);
  const answered = await each(chats, answers(server));
  tell('until all are answered, a tenth of them read', up + sampled + answered, unit);
  await each(sample, isOver(server));
  const after = memory(server);

  const perRun = (/** @type {number} */ megabytes) =>
    `${megabytes.toFixed(0)} MB, ${(((megabytes - empty) * 1024) / RUNS).toFixed(1)} kB a run ` +
    `over an empty server's ${empty.toFixed(0)} MB`;
  console.log(`memory with all runs parked: ${perRun(full)}`);
  console.log(`memory after the restart:    ${perRun(started)}`);
  console.log(`memory once all are over:    ${perRun(after)}`);
  if (model.faults.length > 0) throw new Error(model.faults.slice(0, 3).join('\n'));
}

const model = await FakeOpenAi.start();
model.improvise = (/** @type {import('../harness/fake-openai.mjs').ModelRequest} */ { results }) =>
  results.length === 0 ? calls({ name: 'get_location', input: {} }) : says('You are in Bern.');
const database = process.env.KIND === 'postgres' ? await Postgres.create() : undefined;
const settings = {
  OPENAI_BASE_URL: model.url,
  OPENAI_API_KEY: API_KEY,
  FERMATA_MODEL: 'test-model',
  ...(database && { DATABASE_URL: database.url }),
};
const server = new Server(await freePort(), settings);
try {
  await measure(server, model);
} catch (error) {
  console.log(server.log.split('\n').slice(-20).join('\n'));
  throw error;
} finally {
  await server.discard();
  await model.stop();
  await database?.drop();
}
