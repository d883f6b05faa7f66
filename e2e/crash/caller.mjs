// @ts-check
// Requests of one client, each repeated until it has a reply, whatever instance gives it. What is not known
// to have been taken when the clients are stopped can be sent again afterwards.

import { EventStream } from '../harness/events.mjs';
import { Halted } from './world.mjs';

/** @typedef {import('./world.mjs').CrashWorld} CrashWorld */
/** @typedef {import('../harness/events.mjs').Event} Event */
/** @typedef {import('../harness/random.mjs').Random} Random */
/** @typedef {{ status: number, body: Record<string, any>, tries: number }} Reply */
/**
 * @typedef {object} Request
 * @property {string} method
 * @property {string} path
 * @property {unknown} [body]
 * @property {Record<string, string>} [headers]
 */

/** When hope is lost that a reply comes. */
const DEADLINE = 60_000;
const PAUSE = 20;

export class Caller {
  #world;
  #chat;
  #random;
  /** What may have been taken, though no reply came: sends it again. */
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

  /**
   * A request that changes nothing.
   *
   * @param {string} path
   * @returns {Promise<Reply>}
   */
  async get(path) {
    return this.#json({ method: 'GET', path });
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
      const { tries, ...reply } = await this.#json(request);
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
      const { reply, tries } = await this.#untilReply(request, (url, signal) =>
        this.#open(url, request, signal, hears),
      );
      if (taken) this.unsure = undefined;
      this.#world.note(this.#chat, `= ${reply.status} after ${tries}`);
      taken?.(reply.status, tries + before);
      return reply;
    };
    return send();
  }

  /**
   * @param {string} url
   * @param {Request} request
   * @param {AbortSignal} signal
   * @param {(event?: Event) => void} hears
   */
  async #open(url, request, signal, hears) {
    /** @type {(event?: Event) => void} */
    const listen = (event) => {
      if (event !== undefined) this.#world.heard(this.#chat, event);
      else over();
      if (event === undefined && stream.rest !== '') this.#world.note(this.#chat, `= ${stream.rest}`);
      hears(event);
    };
    let over = () => {};
    const stream = await EventStream.open(url, { ...request, signal }, listen);
    if (!stream.ended) over = this.#world.opens(() => stream.leave());
    return stream;
  }

  /**
   * @param {Request} request
   * @returns {Promise<Reply>}
   */
  async #json(request) {
    const { reply, tries } = await this.#untilReply(request, async (url, signal) => {
      const { method, body } = request;
      const posted =
        body === undefined
          ? {}
          : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
      const response = await fetch(url, { method, signal, ...posted });
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
   * @param {(url: string, signal: AbortSignal) => Promise<T>} attempt
   */
  async #untilReply({ method, path, body, headers }, attempt) {
    const hopeless = Date.now() + DEADLINE;
    for (let tries = 1; Date.now() < hopeless; tries += 1) {
      if (this.#world.halted) throw new Halted();
      const server = this.#world.door(this.#random);
      if (server !== undefined) {
        const what =
          `> ${method} ${path} ${JSON.stringify({ ...headers })} ` +
          `${JSON.stringify(body)?.slice(0, 4000) ?? ''}`;
        this.#world.note(this.#chat, tries === 1 ? what : `> again (${tries}) ${method} ${path}`);
        const reply = await this.#attempt(server.url + path, attempt);
        // With 504 an instance says that it does not know, either.
        if (reply !== undefined && reply.status !== 503 && reply.status !== 504) return { reply, tries };
        this.#world.note(this.#chat, `= ${reply?.status ?? 'no reply'}`);
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
    throw new Error(`${this.#chat}: no reply to ${method} ${path}`);
  }

  /**
   * @template T
   * @param {string} url
   * @param {(url: string, signal: AbortSignal) => Promise<T>} attempt
   */
  async #attempt(url, attempt) {
    const abort = new AbortController();
    const over = this.#world.opens(() => abort.abort());
    try {
      this.#world.listens('a request is sent');
      const reply = attempt(url, abort.signal);
      setImmediate(() => this.#world.listens('a request was sent'));
      return await reply;
    } catch (error) {
      if (this.#world.halted) throw new Halted();
      if (!(error instanceof TypeError)) throw error;
      return undefined;
    } finally {
      over();
    }
  }
}
