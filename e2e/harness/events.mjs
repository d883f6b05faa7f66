// @ts-check
// The event stream as plain HTTP clients see it: bytes in, chunks with their event ids out.

import { until } from './until.mjs';

/** @typedef {{ type: string, [field: string]: unknown }} Chunk */
/** @typedef {{ id: string, chunk: Chunk }} Event */

export class EventStream {
  #abort = new AbortController();
  /** @type {Event[]} */
  events = [];
  /** `true` if `[DONE]` was read. */
  done = false;
  /** `true` if the body is over for any reason. */
  ended = false;
  /** `true` if the reader went away. */
  left = false;
  /** @type {(event?: Event) => void} */
  #hears = () => {};
  status = 0;
  headers = new Headers();
  /** The text that is no event: the body of a refusal. */
  rest = '';

  /**
   * Sends a request and reads the stream that it is answered with, in the background.
   *
   * @param {string} url
   * @param {{ body?: unknown, headers?: Record<string, string>, signal?: AbortSignal }} [request] a POST
   * where there is a body
   * @param {(event?: Event) => void} [hears] told of every event, and without one of the end
   */
  static async open(url, { body, headers = {}, signal } = {}, hears = () => {}) {
    const stream = new EventStream();
    stream.#hears = hears;
    const response = await fetch(url, {
      signal: AbortSignal.any([stream.#abort.signal, ...(signal ? [signal] : [])]),
      method: body === undefined ? 'GET' : 'POST',
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    stream.status = response.status;
    stream.headers = response.headers;
    void stream.#read(response);
    return stream;
  }

  /** Goes away, as a closed browser tab does. */
  leave() {
    this.left = true;
    this.#abort.abort();
  }

  get chunks() {
    return this.events.map((event) => event.chunk);
  }

  /**
   * Waits for a chunk.
   *
   * @param {string} type
   * @param {(chunk: Chunk) => boolean} [matches]
   */
  async sees(type, matches = () => true) {
    return until(
      () => {
        const found = this.chunks.find((chunk) => chunk.type === type && matches(chunk));
        if (found === undefined && this.ended)
          throw new Error(`the stream ended without ${type}: ${this.outline}`);
        return found;
      },
      () => `${type} in: ${this.outline}`,
    );
  }

  /** Waits for the end of the body. */
  async toEnd() {
    await until(
      () => this.ended,
      () => `the end of: ${this.outline}`,
    );
    return this;
  }

  get outline() {
    return this.chunks.map((chunk) => chunk.type).join(' ');
  }

  /** @param {Response} response */
  async #read(response) {
    let unread = '';
    const decoder = new TextDecoder();
    try {
      for await (const bytes of response.body ?? []) {
        const blocks = (unread + decoder.decode(bytes, { stream: true })).split('\n\n');
        unread = blocks.pop() ?? '';
        for (const block of blocks) this.#take(block);
      }
      this.rest = unread;
    } catch {
      // The reader left, or the connection broke: `done` tells such an end from a good one.
    }
    this.ended = true;
    this.#hears();
  }

  /** @param {string} block */
  #take(block) {
    let id = '';
    let data = '';
    for (const line of block.split('\n')) {
      if (line.startsWith('id:')) id = line.slice(3).trim();
      if (line.startsWith('data:')) data += line.slice(5).trim();
    }
    if (data === '[DONE]') this.done = true;
    else if (data !== '') {
      const event = { id, chunk: JSON.parse(data) };
      this.events.push(event);
      this.#hears(event);
    }
  }
}

/**
 * The chunks with deltas of one part put together: a replay may merge them.
 *
 * @param {Chunk[]} chunks
 * @returns {Chunk[]}
 */
export function merged(chunks) {
  /** @type {Chunk[]} */
  const result = [];
  for (const chunk of chunks) {
    const last = result.at(-1);
    const field = chunk.type === 'tool-input-delta' ? 'inputTextDelta' : 'delta';
    const key = chunk.type === 'tool-input-delta' ? 'toolCallId' : 'id';
    if (
      last !== undefined &&
      chunk.type.endsWith('-delta') &&
      last.type === chunk.type &&
      last[key] === chunk[key]
    ) {
      result[result.length - 1] = { ...last, [field]: `${last[field]}${chunk[field]}` };
    } else result.push(chunk);
  }
  return result;
}
