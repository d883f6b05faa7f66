// @ts-check
// What a round takes place in: a model API, the server's instances, what was seen of them, and who kills
// them.

import { isDeepStrictEqual } from 'node:util';
import { FakeOpenAi, API_KEY } from '../harness/fake-openai.mjs';
import { byHand, journal } from '../harness/mcp.mjs';
import { freePort } from '../harness/ports.mjs';
import { Server } from '../harness/server.mjs';
import { RandomModel, SUMMARY_MODEL, chatOf } from './model.mjs';

/** Rounds kill servers more often than a run that gets nowhere is taken up. */
const FERMATA_MAX_ATTEMPTS = '1000';

/** @typedef {import('../harness/random.mjs').Random} Random */
/** @typedef {import('../harness/events.mjs').Event} Event */

const CONFIG = `
[[policy]]
tool = "pick_color"
decision = "ask"
[[policy]]
input = { ask = "yes" }
decision = "ask"
[tools."hand__again"]
repeatable = true
[tools."hand__alone"]
resource = "the one"
`;

/** Thrown by whatever a client does once all clients have been stopped. */
export class Halted extends Error {}

/**
 * @typedef {object} Setup
 * @property {Record<string, string>} [settings] environment variables beside the model API's
 * @property {number} [instances]
 */

/**
 * Whether two chunks are the same, but that one may have more words before.
 *
 * @param {Record<string, unknown>} one
 * @param {Record<string, unknown>} other
 */
function isSame({ delta: one = '', ...rest }, { delta: other = '', ...others }) {
  return (
    isDeepStrictEqual(rest, others) &&
    (String(one).endsWith(String(other)) || String(other).endsWith(String(one)))
  );
}

export class CrashWorld {
  started = Date.now();
  /** @type {string[]} */
  #trace = [];
  /** @type {Server[]} */
  servers = [];
  /** @type {Set<() => void>} what ends the clients' requests */
  #open = new Set();
  /** @type {Map<string, string>} */
  #chunks = new Map();
  /** What was found wrong on the way. */
  /** @type {string[]} */
  faults = [];
  halted = false;
  /** Told of all that happens; the killer listens. */
  /** @type {(event: string) => void} */
  listens = () => {};

  /**
   * @param {Random} random
   * @param {FakeOpenAi} api
   */
  constructor(random, api) {
    this.random = random;
    this.api = api;
    this.model = new RandomModel(random.fork('model'), (event) => this.listens(event));
    api.improvise = this.model.reply;
    // It reasons in this field, and is told of its reasons in it.
    api.knows = ['reasoning_content'];
  }

  /**
   * @param {Random} random
   * @param {Setup} setup
   */
  static async create(random, { settings = {}, instances = 1 }) {
    const world = new CrashWorld(random, await FakeOpenAi.start());
    const api = {
      OPENAI_BASE_URL: world.api.url,
      OPENAI_API_KEY: API_KEY,
      FERMATA_MODEL: 'test-model',
      FERMATA_SUMMARY_MODEL: SUMMARY_MODEL,
      FERMATA_SUMMARY_EVERY: '2',
      FERMATA_KEEP_RECENT: '2',
      FERMATA_MAX_ATTEMPTS,
    };
    try {
      for (let place = 0; place < instances; place += 1) {
        const server = new Server(await freePort(), { ...api, ...settings });
        world.servers.push(server);
        server.configure(byHand(server, { tools: ['once', 'again', 'alone', 'ask'] }) + CONFIG);
        await server.start();
      }
      return world;
    } catch (error) {
      await world.dispose();
      throw error;
    }
  }

  /** An instance that a request may go to; there is none where all are down. */
  door(/** @type {Random} */ random) {
    const there = this.servers.filter((server) => server.alive);
    return there.length === 0 ? undefined : random.pick(there);
  }

  /** What the tools of all instances have left behind. */
  get journal() {
    return this.servers.flatMap((server) => journal(server));
  }

  /** @param {string} who @param {string} what */
  note(who, what) {
    this.#trace.push(`${String(Date.now() - this.started).padStart(6)} ${who.padEnd(6)} ${what}`);
  }

  /**
   * What was noted about one chat, and about the instances.
   *
   * @param {string} [who] all, where it is left out
   */
  trace(who) {
    return this.#trace
      .filter(
        (line) =>
          who === undefined || line.slice(7).startsWith(`${who} `) || line.slice(7).startsWith('killer'),
      )
      .join('\n');
  }

  /**
   * An event that a client was sent: its id must never name another chunk, except that once the run is over
   * the last piece of some words may come with those before it. What is no part of a log has an id with a
   * dot.
   *
   * @param {string} chat
   * @param {Event} event
   */
  heard(chat, { id, chunk }) {
    this.listens('a chunk came');
    const text = JSON.stringify(chunk);
    this.note(chat, `< ${id.slice(-12)} ${text.slice(0, 160)}`);
    if (/\.\d+$/.test(id)) return;
    if (id === '') this.faults.push(`${chat}: a chunk without an id: ${text}`);
    const known = this.#chunks.get(`${chat} ${id}`) ?? text;
    this.#chunks.set(`${chat} ${id}`, known);
    if (!isSame(JSON.parse(known), chunk))
      this.faults.push(`${chat}: the id ${id} names two chunks: ${known} and ${text}`);
  }

  /**
   * Has a request ended when all clients are stopped.
   *
   * @param {() => void} end
   * @returns {() => void} to be called when it is over
   */
  opens(end) {
    this.#open.add(end);
    return () => this.#open.delete(end);
  }

  /** Stops all clients where they are. */
  halt() {
    this.halted = true;
    for (const end of this.#open) end();
  }

  /** What the model was asked for steps, and not for summaries. */
  get asked() {
    return this.api.requests.filter(({ model }) => model !== SUMMARY_MODEL);
  }

  /** The chats whose model is being listened to right now. */
  get spoken() {
    return new Set(this.asked.filter(({ done, gone }) => !done && !gone).map(chatOf));
  }

  async dispose() {
    for (const end of this.#open) end();
    await Promise.all(this.servers.map((server) => server.discard()));
    await this.api.stop();
  }
}
