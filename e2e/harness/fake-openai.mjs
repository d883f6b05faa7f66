// @ts-check
// A stand-in for an OpenAI-compatible model API. A test writes one reply per request it expects; a reply is a
// function that is handed a pen and writes the stream as it likes. Without a script, it may
// improvise. A request that a strict provider would refuse, that nobody expected, or that never came, is a
// fault, and faults fail the test.

import http from 'node:http';
import { faultsOf, isObject } from './strictness.mjs';

/** @typedef {(pen: Pen) => void | Promise<void>} Reply */
/** @typedef {{ status: number, headers?: Record<string, string>, code?: string }} Refusal */
/** @typedef {{ name: string, input: unknown, id?: string }} Call */
/**
 * @typedef {object} SentMessage
 * @property {string} role
 * @property {string | { type: string, text?: string }[] | null} [content]
 * @property {{ id: string, function: { name: string, arguments: string } }[]} [tool_calls]
 * @property {string} [tool_call_id]
 */

/** Words of one meaning, for vectors. */
const MEANINGS = [
  ['automobile', 'vehicle', 'car'],
  ['walnuts', 'nuts', 'allerg'],
  ['turquoise', 'colour'],
];

/** The key that the stand-in expects, and that must never reach a client. */
export const API_KEY = 'sk-never-show-this';

// === replies ===

/**
 * A reply of text.
 *
 * @param {...string} pieces
 * @returns {Reply}
 */
export const says =
  (...pieces) =>
  (pen) =>
    pen.says(...pieces);

/**
 * A reply of tool calls.
 *
 * @param {...Call} calls
 * @returns {Reply}
 */
export const calls =
  (...calls) =>
  (pen) =>
    pen.calls(...calls);

/**
 * An HTTP error instead of a stream.
 *
 * @param {number} status
 * @param {Record<string, string>} [headers]
 * @returns {Refusal}
 */
export const refuses = (status, headers = {}) => ({ status, headers });

/** Writes one streamed completion. */
export class Pen {
  #response;
  #calls = 0;
  #brokenOff = false;
  /** The finish reason of the last choice; by default the one that fits. */
  /** @type {string | undefined} */
  finishReason = undefined;
  /** `true` if a usage chunk is sent. */
  usage = true;
  /** The tokens of the request, as the provider counts them. */
  inputTokens = 20;

  /** @param {http.ServerResponse} response */
  constructor(response) {
    this.#response = response;
  }

  /** Fulfilled when the other side has closed the connection. */
  get gone() {
    return new Promise((resolve) => {
      if (this.#response.destroyed) resolve(undefined);
      else this.#response.once('close', resolve);
    });
  }

  /** @param {...string} pieces */
  says(...pieces) {
    for (const content of pieces) this.#delta({ content });
  }

  /** @param {...string} pieces in the field that DeepSeek, Qwen and others use */
  reasons(...pieces) {
    for (const reasoning_content of pieces) this.#delta({ reasoning_content });
  }

  /** @param {...string} urls of pictures, as OpenRouter's image models send them */
  draws(...urls) {
    this.#delta({ images: urls.map((url) => ({ type: 'image_url', image_url: { url } })) });
  }

  /** @param {...{ url: string, title: string }} pages as search models name them */
  cites(...pages) {
    this.#delta({ annotations: pages.map((page) => ({ type: 'url_citation', url_citation: page })) });
  }

  /** @param {...Call} calls each in several pieces, one after the other */
  calls(...calls) {
    for (const { name, input, id } of calls) {
      const index = this.begins(name, id ?? `call_${this.#calls}`);
      const text = JSON.stringify(input);
      const middle = Math.ceil(text.length / 2);
      this.argues(index, text.slice(0, middle));
      this.argues(index, text.slice(middle));
    }
  }

  /**
   * Begins a call whose arguments follow.
   *
   * @param {string} name
   * @param {string} [id] none, as some providers have it
   * @returns {number} its index
   */
  begins(name, id) {
    const index = this.#calls++;
    this.#delta({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] });
    return index;
  }

  /**
   * @param {number} index
   * @param {string} text
   */
  argues(index, text) {
    if (text !== '') this.#delta({ tool_calls: [{ index, function: { arguments: text } }] });
  }

  /** Breaks the connection in the middle of the reply. */
  breaksOff() {
    this.#brokenOff = true;
    this.#response.destroy();
  }

  /** Ends the reply as a provider does. */
  finish() {
    if (this.#brokenOff) return;
    this.#choice({
      delta: {},
      finish_reason: this.finishReason ?? (this.#calls > 0 ? 'tool_calls' : 'stop'),
    });
    const [prompt_tokens, completion_tokens] = [this.inputTokens, 5];
    const usage = { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
    if (this.usage) this.#chunk({ choices: [], usage });
    this.#response.end('data: [DONE]\n\n');
  }

  /** @param {Record<string, unknown>} delta */
  #delta(delta) {
    this.#choice({ delta, finish_reason: null });
  }

  /** @param {Record<string, unknown>} choice */
  #choice(choice) {
    this.#chunk({ choices: [{ index: 0, ...choice }] });
  }

  /** @param {Record<string, unknown>} body */
  #chunk(body) {
    const common = {
      id: 'chatcmpl-1',
      object: 'chat.completion.chunk',
      created: 1_700_000_000,
      model: 'test-model',
    };
    this.#response.write(`data: ${JSON.stringify({ ...common, ...body })}\n\n`);
  }
}

/** One request that the model was sent. */
export class ModelRequest {
  /** `true` if the other side closed the connection before the reply was through. */
  gone = false;
  /** `true` if the reply was through. */
  done = false;

  /**
   * @param {{ model?: string, messages?: SentMessage[], tools?: { function: { name: string } }[],
   * tool_choice?: unknown }} body
   */
  constructor(body) {
    this.model = body.model;
    this.messages = body.messages ?? [];
    this.tools = (body.tools ?? []).map((tool) => tool.function.name);
    this.toolChoice = body.tool_choice;
  }

  /** The calls in the history, oldest first. */
  get calls() {
    return this.messages
      .flatMap((message) => message.tool_calls ?? [])
      .map((call) => ({
        id: call.id,
        name: call.function.name,
        input: /** @type {unknown} */ (JSON.parse(call.function.arguments)),
      }));
  }

  /** The results in the history, oldest first, as the model reads them. */
  get results() {
    const calls = this.calls;
    return this.messages
      .filter((message) => message.role === 'tool')
      .map((message) => ({
        name: calls.find((call) => call.id === message.tool_call_id)?.name,
        text: wordsOf(message),
      }));
  }

  /** The words of the history, without system messages and results. */
  get words() {
    return this.messages
      .filter((message) => message.role === 'user' || message.role === 'assistant')
      .map((message) => `${message.role}: ${wordsOf(message)}`);
  }
}

/** @param {SentMessage} message */
function wordsOf({ content }) {
  if (typeof content === 'string') return content;
  return (content ?? []).map((part) => part.text ?? `[${part.type}]`).join('');
}

// === the server ===

export class FakeOpenAi {
  /** @type {(Reply | Refusal)[]} */
  #script = [];
  #server = http.createServer((request, response) => void this.#take(request, response));
  /** @type {ModelRequest[]} */
  requests = [];
  /** The header `traceparent` of each of them.
   *
   * @type {unknown[]} */
  traceparents = [];
  /** @type {string[]} */
  faults = [];
  /** Fields of an assistant's message that it takes back, besides those that every provider knows. */
  /** @type {string[]} */
  knows = [];
  /** The function that replies to requests that the script lacks. */
  /** @type {((request: ModelRequest) => Reply | Refusal) | undefined} */
  improvise = undefined;
  /** The requests for vectors: the model, and the texts. */
  /** @type {{ model: string, texts: string[] }[]} */
  embedded = [];
  /** The answer to requests for vectors: with vectors, with a status, or not at all. */
  /** @type {'vectors' | 'nothing' | number} */
  embeds = 'vectors';

  static async start() {
    const fake = new FakeOpenAi();
    await new Promise((/** @type {(value: void) => void} */ resolve) =>
      fake.#server.listen(0, '127.0.0.1', resolve),
    );
    return fake;
  }

  /** The base URL, as `OPENAI_BASE_URL` has it. */
  get url() {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the stand-in is not listening');
    return `http://127.0.0.1:${address.port}/v1`;
  }

  /** @param {...(Reply | Refusal)} replies to the next requests, in order */
  script(...replies) {
    this.#script.push(...replies);
  }

  /**
   * The n-th request, counted from 1.
   *
   * @param {number} n
   */
  request(n) {
    const request = this.requests[n - 1];
    if (request === undefined) throw new Error(`the model was asked ${this.requests.length} times, not ${n}`);
    return request;
  }

  /** The faults so far, including replies that nobody asked for. */
  get verdict() {
    return this.#script.length === 0
      ? this.faults
      : [...this.faults, `${this.#script.length} replies were never asked for`];
  }

  async stop() {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /**
   * @param {http.IncomingMessage} message
   * @param {http.ServerResponse} response
   */
  async #take(message, response) {
    const body = await bodyOf(message);
    if (message.method === 'POST' && message.url === '/v1/embeddings')
      return this.#embed(body, message, response);
    const faults = faultsOf(body, this.knows);
    if (message.method !== 'POST' || message.url !== '/v1/chat/completions')
      faults.push(`${message.method} ${message.url}`);
    if (message.headers.authorization !== `Bearer ${API_KEY}`) faults.push('a wrong API key');
    const request = new ModelRequest(isObject(body) ? body : {});
    this.requests.push(request);
    this.traceparents.push(message.headers.traceparent);
    const reply = this.#script.shift() ?? this.improvise?.(request);
    if (reply === undefined) faults.push(`nobody expected request ${this.requests.length}`);
    this.faults.push(...faults);
    response.on('close', () => {
      request.done = response.writableFinished;
      request.gone = !request.done;
    });
    if (reply === undefined || faults.length > 0) return refuse(response, { status: 400 });
    if (typeof reply !== 'function') return refuse(response, reply);
    await this.#write(reply, response);
  }

  /**
   * Answers with vectors that give each of a few meanings a place of its own.
   *
   * @param {unknown} body
   * @param {http.IncomingMessage} message
   * @param {http.ServerResponse} response
   */
  #embed(body, message, response) {
    const { model, input } = isObject(body) ? body : {};
    if (typeof model !== 'string' || !Array.isArray(input) || input.length === 0)
      return void this.faults.push(`a request for vectors is ${JSON.stringify(body)}`);
    if (message.headers.authorization !== `Bearer ${API_KEY}`) this.faults.push('a wrong API key');
    const texts = input.map(String);
    this.embedded.push({ model, texts });
    if (this.embeds === 'nothing') return undefined;
    if (this.embeds !== 'vectors') return refuse(response, { status: this.embeds });
    const data = texts.map((text, index) => ({
      object: 'embedding',
      index,
      embedding: [...MEANINGS.map((words) => (words.some((word) => text.includes(word)) ? 1 : 0)), 0.1],
    }));
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(
      JSON.stringify({ object: 'list', model, data, usage: { prompt_tokens: 1, total_tokens: 1 } }),
    );
  }

  /**
   * @param {Reply} reply
   * @param {http.ServerResponse} response
   */
  async #write(reply, response) {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.flushHeaders();
    const pen = new Pen(response);
    try {
      await reply(pen);
      if (!response.destroyed) pen.finish();
    } catch (error) {
      this.faults.push(`a reply failed: ${error}`);
      response.destroy();
    }
  }
}

/**
 * @param {http.ServerResponse} response
 * @param {Refusal} refusal
 */
function refuse(response, { status, headers = {}, code }) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  const error = { message: `refused for ${API_KEY}`, type: 'test', code: code ?? null };
  response.end(JSON.stringify({ error }));
}

/**
 * @param {http.IncomingMessage} message
 * @returns {Promise<unknown>} the body as JSON; `undefined` where it is none
 */
async function bodyOf(message) {
  const pieces = [];
  for await (const piece of message) pieces.push(piece);
  try {
    return JSON.parse(Buffer.concat(pieces).toString('utf8'));
  } catch {
    return undefined;
  }
}
