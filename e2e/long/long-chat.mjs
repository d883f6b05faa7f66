// @ts-check
// One chat of very many turns with a model that can take little. The model refuses what is too long and, as
// every stand-in, a history that a strict provider would refuse. The facts of the first turns have to be in
// the last request to it.

import { API_KEY, FakeOpenAi, calls, says } from '../harness/fake-openai.mjs';
import { Server } from '../harness/server.mjs';

/** @typedef {import('../harness/fake-openai.mjs').ModelRequest} ModelRequest */

/** The number of first turns whose facts must not be forgotten. */
const PLANTED = 50;
const COLOURS = ['amber', 'birch', 'coral', 'denim', 'ecru', 'fawn', 'gold', 'hazel'];
const FACT = /The colour of box-(\d+) is (\w+)\./g;
const TOOL = {
  name: 'look',
  description: 'Looks into a box.',
  inputSchema: { type: 'object', properties: { box: { type: 'number' } }, required: ['box'] },
};

/** @param {number} turn */
const colour = (turn) => COLOURS[turn % COLOURS.length];

/** @param {ModelRequest} request the tokens that the provider counts: more than one for four characters */
const tokensOf = (request) => Math.ceil(JSON.stringify([request.messages, request.tools]).length / 3.3);

/**
 * @param {object} options
 * @param {number} options.turns
 * @param {number} options.window the tokens that the model can take
 * @param {boolean} options.isKnown whether the server knows that number
 * @param {(done: number) => void} [options.progress] told of every hundredth turn
 */
export async function longChat({ turns, window, isKnown, progress = () => {} }) {
  const model = await FakeOpenAi.start();
  const seen = {
    /** The characters that were sent, and those that repeat the beginning of the request before. */
    sent: 0,
    repeated: 0,
    /** The same without requests that begin otherwise than the one before, because the chat was compacted. */
    sentOn: 0,
    repeatedOn: 0,
    refusals: 0,
    summaries: 0,
    longest: 0,
    last: /** @type {ModelRequest | undefined} */ (undefined),
  };
  model.improvise = (request) => {
    // The stand-in is asked for hours, so it keeps nothing.
    model.requests.length = 0;
    if (request.model === 'summary-model') return summarizes(request, seen);
    const tokens = tokensOf(request);
    if (tokens > window) {
      seen.refusals += 1;
      return { status: 400, code: 'context_length_exceeded' };
    }
    seen.longest = Math.max(seen.longest, tokens);
    count(request, seen);
    seen.last = request;
    const turn = Number(
      /turn (\d+)/.exec(request.words.findLast((words) => words.startsWith('user:')) ?? '')?.[1],
    );
    const isAnswered = request.messages.at(-1)?.role === 'tool';
    const reply =
      turn % 2 === 0 && !isAnswered
        ? calls({ name: 'look', input: { box: turn } })
        : says(`Done with ${turn}.`);
    return (pen) => {
      pen.inputTokens = tokens;
      return reply(pen);
    };
  };
  const server = await Server.start({
    OPENAI_BASE_URL: model.url,
    OPENAI_API_KEY: API_KEY,
    FERMATA_MODEL: 'test-model',
    FERMATA_SUMMARY_MODEL: 'summary-model',
    RUST_LOG: 'warn',
    ...(isKnown ? { FERMATA_CONTEXT_WINDOW: String(window) } : {}),
  });
  try {
    for (let turn = 1; turn <= turns; turn++) {
      if (turn === Math.ceil(turns / 2)) {
        await server.kill();
        await server.start();
      }
      await take(server, turn);
      if (model.verdict.length > 0) throw new Error(`turn ${turn}: ${model.verdict.join('; ')}`);
      if (turn % 100 === 0) progress(turn);
    }
    const sent = JSON.stringify(seen.last?.messages);
    const planted = Array.from({ length: Math.min(PLANTED, turns) }, (_, index) => index + 1);
    const forgotten = planted.filter((turn) => !new RegExp(`box-${turn}\\b[^.}]*${colour(turn)}`).test(sent));
    const response = await fetch(`${server.url}/api/chat/long`);
    const chat = /** @type {{ messages: unknown[] }} */ (await response.json());
    return { ...seen, forgotten, messages: chat.messages.length, log: server.log };
  } finally {
    await server.discard();
    await model.stop();
  }
}

/**
 * Counts how much of a request a provider's cache may have.
 *
 * @param {ModelRequest} request
 * @param {{ sent: number, repeated: number, sentOn: number, repeatedOn: number, last: ModelRequest | undefined }} seen
 */
function count(request, seen) {
  const [sent, before] = [request, seen.last].map((one) =>
    (one?.messages ?? []).map((message) => JSON.stringify(message)),
  );
  if (sent === undefined || before === undefined) return;
  const length = (/** @type {string[]} */ messages) =>
    messages.reduce((sum, message) => sum + message.length, 0);
  const differs = sent.findIndex((message, index) => message !== before[index]);
  const repeated = length(differs === -1 ? sent : sent.slice(0, differs));
  seen.sent += length(sent);
  seen.repeated += repeated;
  if (differs >= before.length || differs === -1) {
    seen.sentOn += length(sent);
    seen.repeatedOn += repeated;
  }
}

/**
 * Returns the new facts in the messages. The server keeps those that are in the summary so far.
 *
 * @param {ModelRequest} request
 * @param {{ summaries: number }} seen
 */
function summarizes(request, seen) {
  seen.summaries += 1;
  // It gives none at times, even when it is asked again.
  if (seen.summaries % 6 < 2) return says('I would rather not.');
  const words = request.words.join('\n');
  const entities = Object.fromEntries([...words.matchAll(FACT)].map(([, box, is]) => [`box-${box}`, is]));
  return says(JSON.stringify({ goal: 'know the boxes', entities }));
}

/**
 * One turn: a message, and the answer to a call if there is one. Throws if it does not end as it should.
 *
 * @param {Server} server
 * @param {number} turn
 */
async function take(server, turn) {
  const fact = turn <= PLANTED ? ` The colour of box-${turn} is ${colour(turn)}.` : '';
  const response = await fetch(`${server.url}/api/chat`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      id: 'long',
      message: {
        id: `u${turn}`,
        role: 'user',
        parts: [{ type: 'text', text: `This is turn ${turn}.${fact}` }],
      },
      tools: [TOOL],
      fermata: { hold: '1m' },
    }),
  });
  if (response.status !== 200 || response.body === null)
    throw new Error(`turn ${turn}: ${response.status} ${await response.text()}`);
  let text = '';
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    const before = text.length;
    text += piece;
    const call = /"tool-input-available","toolCallId":"([^"]+)"/.exec(text);
    if (call !== null && !text.slice(0, before).includes(call[0])) await answer(server, turn, call[1] ?? '');
  }
  if (!text.includes('"type":"finish"') || text.includes('"type":"error"'))
    throw new Error(`turn ${turn} ended so:\n${text.slice(-500)}\n${server.log.slice(-2000)}`);
}

/**
 * @param {Server} server
 * @param {number} turn
 * @param {string} toolCallId
 */
async function answer(server, turn, toolCallId) {
  const output = `Box ${turn} has ${'many small things, '.repeat(50 + ((turn * 37) % 400))}and nothing else.`;
  const response = await fetch(`${server.url}/chat/tool-result`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ chatId: 'long', toolCallId, output }),
  });
  if (!response.ok) throw new Error(`turn ${turn}: ${response.status} ${await response.text()}`);
}
