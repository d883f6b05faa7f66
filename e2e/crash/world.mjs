// @ts-check
// What a round takes place in: a model API, the server's instances, what was seen of them, and who kills
// them.

import { isDeepStrictEqual } from 'node:util';
import { FakeOpenAi, API_KEY } from '../harness/fake-openai.mjs';
import { Link } from '../harness/link.mjs';
import { booked, byHand, journal } from '../harness/mcp.mjs';
import { freePort } from '../harness/ports.mjs';
import { Machine } from '../harness/preload.mjs';
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
[tools."hand__book"]
repeatable = true
[tools."hand__alone"]
repeatable = false
resource = "the one"
[tools."hand__once"]
repeatable = false
`;

/** Thrown by every action of a client once all clients have been stopped. */
export class Halted extends Error {}

/** Thrown for a request that was refused with 503, so that it was surely not done, and that its client gives up. */
export class Refused extends Error {}

/**
 * @typedef {object} Setup
 * @property {Record<string, string>} [settings] environment variables beside the model API's
 * @property {number} [instances]
 * @property {import('../harness/postgres-server.mjs').PostgresServer} [postgres] a server that faults may touch
 * @property {import('../harness/services.mjs').Redis} [redis] a server that faults may touch
 * @property {boolean} [standby] whether there is a standby of the database
 * @property {boolean} [machines] whether instances run on machines whose clocks and disks may fail
 * @property {string} [otherBinary] another version of the server, which every second instance is
 */

/**
 * @typedef {object} Instance
 * @property {number} place counted from 1
 * @property {Server} server
 * @property {{ postgres?: Link, redis?: Link }} links
 * @property {Machine} [machine]
 */

/** The time after a fault that has harmed an instance when it may still cut a stream, in milliseconds. */
const AFTERMATH = 15_000;
/** The longest time for a query about the owner of a chat, in milliseconds. */
const LOOK = 2_000;

/**
 * Returns `true` if two chunks are the same, but that one may have more words before.
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
  /** @type {Instance[]} */
  instances = [];
  /** @type {import('../harness/postgres-server.mjs').PostgresServer | undefined} */
  postgres;
  /** `true` if a fault is about to stop the database's server, or has stopped it. */
  isPostgresTouched = false;
  /** The database's standby, until it is promoted. */
  /** @type {import('../harness/postgres-server.mjs').PostgresServer | undefined} */
  standby;
  /** @type {import('../harness/services.mjs').Redis | undefined} */
  redis;
  machines = false;
  /** `true` if some instances are of another version, which may know no idempotency keys. */
  isMixed = false;
  /** `true` if the database has forgotten what it had confirmed. */
  hasLostCommits = false;
  /** When runs of an instance may have been cut off, by its place. */
  /** @type {{ place: number, from: number, until: number }[]} */
  #harms = [];
  /** @type {Set<() => void>} what ends the clients' requests */
  #open = new Set();
  /** @type {Map<string, string>} */
  #chunks = new Map();
  /** The faults found on the way. */
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
    // It reasons in this field, and receives its reasons in it.
    api.knows = ['reasoning_content'];
  }

  /**
   * @param {Random} random
   * @param {Setup} setup
   */
  static async create(random, setup) {
    const { settings = {}, instances = 1, postgres, redis, standby = false, machines = false } = setup;
    const world = new CrashWorld(random, await FakeOpenAi.start());
    world.postgres = postgres;
    world.redis = redis;
    world.machines = machines;
    world.isMixed = setup.otherBinary !== undefined;
    world.model.hasLongCalls = standby;
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
      if (standby) world.standby = await postgres?.standby();
      for (let place = 1; place <= instances; place += 1) {
        /** @type {Instance['links']} */
        const links = {};
        /** @type {Record<string, string>} */
        const stores = {};
        if (postgres !== undefined) {
          links.postgres = await Link.open(postgres.target);
          stores.DATABASE_URL = links.postgres.through(postgres.url);
        }
        if (redis !== undefined) {
          links.redis = await Link.open(redis.target);
          stores.REDIS_URL = links.redis.through(redis.url);
        }
        const machine = machines ? new Machine() : undefined;
        const server = new Server(await freePort(), { ...api, ...settings, ...stores }, machine?.through);
        if (place % 2 === 0 && setup.otherBinary !== undefined) server.binary = setup.otherBinary;
        world.instances.push({ place, server, links, ...(machine && { machine }) });
        const tools = ['once', 'again', 'book', 'alone', 'ask'];
        server.configure(byHand(server, { tools, env: { LEDGER: world.ledger } }) + CONFIG);
        await server.start();
      }
      return world;
    } catch (error) {
      await world.dispose();
      throw error;
    }
  }

  get servers() {
    return this.instances.map(({ server }) => server);
  }

  /**
   * Notes that runs of instances may be cut off.
   *
   * @param {readonly Instance[]} instances
   * @returns {() => void} to be called when the instances, their stores and the links are well again
   */
  harm(instances) {
    const harms = instances.map(({ place }) => ({ place, from: Date.now(), until: Infinity }));
    this.#harms.push(...harms);
    return () => {
      for (const harm of harms) harm.until = Date.now() + AFTERMATH;
    };
  }

  /**
   * The instance that owns the open run of a chat, if that can be found out.
   *
   * @param {string} chat
   * @returns {Promise<Instance | undefined>}
   */
  async ownerOf(chat) {
    if (this.instances.length === 1) return this.instances[0];
    const query = `select instance from runs where chat_id = '${chat}' and outcome is null`;
    const rows = this.postgres?.rows(query).catch(() => []) ?? [];
    const timeout = new Promise((/** @type {(rows: Record<string, unknown>[]) => void} */ resolve) => {
      setTimeout(() => resolve([]), LOOK).unref();
    });
    const [row] = await Promise.race([rows, timeout]);
    return this.instances.find(
      ({ server }) => row?.instance != null && server.log.includes(String(row.instance)),
    );
  }

  /**
   * A stream has ended without its run having ended, or has taken back what it had shown. That is a fault, unless it may have been cut
   * off by something that has harmed the instance that owns the run, and that the stream came from.
   *
   * @param {string} chat
   * @param {{ from: number, by: Instance | undefined, server: Server }} stream
   * @param {string} how
   */
  wasCut(chat, { from, by, server }, how) {
    this.note(chat, `= the stream was cut: ${how}`);
    if (by === undefined || by.server !== server || this.halted) return;
    const now = Date.now();
    const isHarmed = this.#harms.some(
      (harm) => harm.place === by.place && harm.from <= now && harm.until >= from,
    );
    if (!isHarmed)
      this.faults.push(`${chat}: a stream of instance ${by.place}, which was well, was cut: ${how}`);
  }

  /** An instance that a request may go to; there is none where all are down. */
  door(/** @type {Random} */ random) {
    const there = this.servers.filter((server) => server.alive);
    return there.length === 0 ? undefined : random.pick(there);
  }

  /** The folder of the ledger that the tools of all instances share. */
  get ledger() {
    return this.servers[0]?.folder ?? '';
  }

  /** The subjects of the effects of all instances' calls. */
  get booked() {
    return booked({ folder: this.ledger });
  }

  /** The entries that the tools of all instances have left behind. */
  get journal() {
    return this.servers.flatMap((server) => journal(server));
  }

  /** @param {string} who @param {string} what */
  note(who, what) {
    this.#trace.push(`${String(Date.now() - this.started).padStart(6)} ${who.padEnd(7)} ${what}`);
  }

  /**
   * Returns the notes about one chat, and about the instances.
   *
   * @param {string} [who] all, where it is left out
   */
  trace(who) {
    return this.#trace
      .filter(
        (line) =>
          who === undefined ||
          [`${who} `, 'killer', 'nemesis'].some((name) => line.slice(7).startsWith(name)),
      )
      .join('\n');
  }

  /**
   * An event that a client was sent: its id must never name another chunk, except that once the run is over
   * the last piece of some words may come with those before it. An event outside the log has an id with a
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
    if (!isSame(JSON.parse(known), chunk) && !this.hasLostCommits)
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

  /** The requests to the model for steps, without those for summaries. */
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
    const links = this.instances.flatMap(({ links }) => Object.values(links));
    await Promise.all([...links.map((link) => link.close()), this.api.stop(), this.standby?.discard()]);
    // The server that it stands in for was discarded when it was promoted.
    if (this.hasLostCommits) await this.postgres?.discard();
  }
}
