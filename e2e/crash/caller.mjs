// @ts-check
// Requests of one client, each repeated until any instance replies. What is not known
// to have been taken when the clients are stopped can be sent again afterwards.

import { EventStream } from '../harness/events.mjs';
import { Halted, Refused } from './world.mjs';

/** @typedef {import('./world.mjs').CrashWorld} CrashWorld */
/** @typedef {import('../harness/events.mjs').Event} Event */
/** @typedef {import('../harness/random.mjs').Random} Random */
/** @typedef {import('../harness/server.mjs').Server} Server */
/** @typedef {{ status: number, body: Record<string, any>, tries: number }} Reply */
/**
 * @typedef {object} Request
 * @property {string} method
 * @property {string} path
 * @property {unknown} [body]
 * @property {Record<string, string>} [headers]
 * @property {() => boolean} [givesUp] asked when the request was refused and surely not done: whether it is not sent again
 */

/** When hope is lost that a reply comes. */
const DEADLINE = 100_000;
/** The error of a stream that lost its run. */
const LOST = /lost this run/;
const PAUSE = 20;

export class Caller {
  #world;
  #chat;
  #random;
  /** Sends a request again that may have been taken, though no reply came. */
  /** @type {(() => Promise<unknown>) | undefined} */
  unsure;

  /**
   * @param {CrashWorld} world
   * @param {string} chat
   * @param {Random} random
   */
  constructor(world, chat, random) {
    this.#world = world;
    this.#chat = chat;
    this.#random = random;
  }

  get hasLostCommits() {
    return this.#world.hasLostCommits;
  }

  /**
   * A request that changes nothing.
   *
   * @param {string} path
   * @returns {Promise<Reply>}
   */
  async get(path) {
    return this.#json({ method: 'GET', path }, false);
  }

  /**
   * A request that changes something.
   *
   * @param {Request} request
   * @param {(reply: Reply) => void} taken told of the reply, at once
   * @returns {Promise<Reply>}
   */
  async change(request, taken) {
    const send = async () => {
      const before = this.unsure === send ? 1 : 0;
      this.unsure = send;
      const { tries, ...reply } = await this.#json(request, before > 0);
      this.unsure = undefined;
      taken({ ...reply, tries: tries + before });
      return { ...reply, tries };
    };
    return send();
  }

  /**
   * A request that is answered with a stream, or refused.
   *
   * @param {Request} request
   * @param {(event?: Event) => void} hears
   * @param {(status: number, tries: number) => void} [taken] where the request changes something: told of the
   * reply, at once
   */
  async stream(request, hears, taken) {
    /** @type {() => Promise<EventStream>} */
    const send = async () => {
      const before = this.unsure === send ? 1 : 0;
      if (taken) this.unsure = send;
      const since = Date.now();
      const { reply, tries } = await this.#untilReply(request, before > 0, (server, signal) =>
        this.#open(server, request, signal, hears, since),
      );
      if (taken) this.unsure = undefined;
      this.#world.note(this.#chat, `= ${reply.status} after ${tries}`);
      taken?.(reply.status, tries + before);
      return reply;
    };
    return send();
  }

  /**
   * @param {Server} server
   * @param {Request} request
   * @param {AbortSignal} signal
   * @param {(event?: Event) => void} hears
   * @param {number} since the time of the first request; a step that was cut off since then has the reason at its beginning
   */
  async #open(server, request, signal, hears, since) {
    const from = Date.now();
    /** @type {import('./world.mjs').Instance | undefined} */
    let by;
    const wasCut = (/** @type {string} */ how, begin = from) =>
      this.#world.wasCut(this.#chat, { from: begin, by, server }, how);
    /** @type {(event?: Event) => void} */
    const listen = (event) => {
      if (event === undefined) {
        over();
        if (stream.rest !== '') this.#world.note(this.#chat, `= ${stream.rest}`);
        if (stream.status === 200 && !stream.done && !stream.left) wasCut('it ended');
      } else {
        this.#world.heard(this.#chat, event);
        if (event.chunk.type === 'reset-step') wasCut('reset-step', since);
        if (event.chunk.type === 'error' && LOST.test(String(event.chunk.errorText))) wasCut('error');
      }
      hears(event);
    };
    let over = () => {};
    const stream = await EventStream.open(server.url + request.path, { ...request, signal }, listen);
    if (!stream.ended) over = this.#world.opens(() => stream.leave());
    void this.#world.ownerOf(this.#chat).then((owner) => {
      by = owner;
    });
    return stream;
  }

  /**
   * @param {Request} request
   * @param {boolean} isUnsure whether it may have been done before
   * @returns {Promise<Reply>}
   */
  async #json(request, isUnsure) {
    const { reply, tries } = await this.#untilReply(request, isUnsure, async ({ url }, signal) => {
      const { method, body } = request;
      const posted =
        body === undefined
          ? {}
          : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
      const response = await fetch(url + request.path, { method, signal, ...posted });
      const text = await response.text();
      return {
        status: response.status,
        body: /** @type {Record<string, any>} */ (text === '' ? {} : JSON.parse(text)),
      };
    });
    this.#world.note(this.#chat, `= ${reply.status} ${JSON.stringify(reply.body).slice(0, 300)}`);
    return { ...reply, tries };
  }

  /**
   * @template {{ status: number }} T
   * @param {Request} request
   * @param {boolean} isUnsure whether it may have been done before
   * @param {(server: Server, signal: AbortSignal) => Promise<T>} attempt
   */
  async #untilReply({ method, path, body, headers, givesUp }, isUnsure, attempt) {
    const hopeless = Date.now() + DEADLINE;
    let mayBeDone = isUnsure;
    for (let tries = 1; Date.now() < hopeless; tries += 1) {
      if (this.#world.halted) throw new Halted();
      const server = this.#world.door(this.#random);
      if (server !== undefined) {
        const what =
          `> ${method} ${path} ${JSON.stringify({ ...headers })} ` +
          `${JSON.stringify(body)?.slice(0, 4000) ?? ''}`;
        this.#world.note(this.#chat, tries === 1 ? what : `> again (${tries}) ${method} ${path}`);
        const reply = await this.#attempt(server, attempt);
        if (typeof reply === 'object' && reply.status !== 503 && reply.status !== 504)
          return { reply, tries };
        this.#world.note(this.#chat, `= ${typeof reply === 'object' ? reply.status : reply}`);
        // With 503 an instance says that it has done nothing, and with 504 that it does not know.
        if (typeof reply === 'object' ? reply.status === 504 : reply === 'no reply') mayBeDone = true;
        else if (typeof reply === 'object' && !mayBeDone && givesUp?.()) {
          this.unsure = undefined;
          throw new Refused();
        }
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
    throw new Error(`${this.#chat}: no reply to ${method} ${path}`);
  }

  /**
   * @template T
   * @param {Server} server
   * @param {(server: Server, signal: AbortSignal) => Promise<T>} attempt
   * @returns {Promise<T | 'no reply' | 'not sent'>}
   */
  async #attempt(server, attempt) {
    const abort = new AbortController();
    const over = this.#world.opens(() => abort.abort());
    try {
      this.#world.listens('a request is sent');
      const reply = attempt(server, abort.signal);
      setImmediate(() => this.#world.listens('a request was sent'));
      return await reply;
    } catch (error) {
      if (this.#world.halted) throw new Halted();
      if (!(error instanceof TypeError)) throw error;
      const { code } = /** @type {{ code?: string }} */ (error.cause ?? {});
      return code === 'ECONNREFUSED' ? 'not sent' : 'no reply';
    } finally {
      over();
    }
  }
}
