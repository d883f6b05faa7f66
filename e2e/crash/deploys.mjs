// @ts-check
// Pages behind nginx, as `deploy/nginx.conf` has it, while the two instances behind it are replaced one after the other, or killed. A person
// before one of the pages must notice nothing, and what was refused must be taken soon.

import { setTimeout as pause } from 'node:timers/promises';
import { CLIENTS, newestOf } from '../harness/clients.mjs';
import { API_KEY, FakeOpenAi } from '../harness/fake-openai.mjs';
import { Nginx } from '../harness/nginx.mjs';
import { freePort } from '../harness/ports.mjs';
import { Random } from '../harness/random.mjs';
import { Server } from '../harness/server.mjs';
import { Postgres, Redis } from '../harness/services.mjs';
import { SUMMARY_MODEL } from './model.mjs';
import { Page } from './page.mjs';
import { KINDS_OF_TURN, NumberingModel } from './words.mjs';

/** @typedef {import('../harness/clients.mjs').Client} Client */
/** @typedef {import('../harness/sdk.mjs').Message} Message */
/** @typedef {'replaced' | 'killed'} Manner how instances end */

/** Within this time a post or an answer that was refused has to be taken while instances are replaced, in milliseconds. */
const TAKEN_WITHIN = 2_000;
const TURNS = { replaced: 3, killed: 6 };
/** The largest number of times that all instances are replaced. */
const ROLLOUTS = 3;
/** For how long a killed instance may count as alive, in milliseconds. */
const LEASE = 8_000;
const LOG_LINES = 60;

/** Two instances, nginx in front of them, and a model. */
export class Deployment {
  /** @type {Server[]} */
  instances = [];
  /** The number of instances that have ended. */
  count = 0;
  #started = Date.now();
  /** @type {string[]} */
  #trace = [];
  /** @type {(() => Promise<unknown>)[]} */
  #rooms = [];
  url = '';

  /**
   * @param {FakeOpenAi} api
   * @param {Postgres} database
   * @param {NumberingModel} model
   */
  constructor(api, database, model) {
    this.api = api;
    this.database = database;
    this.model = model;
    api.improvise = model.reply;
  }

  /** @param {Record<string, string>} settings @param {NumberingModel} [model] */
  static async create(settings, model = new NumberingModel()) {
    const [api, database, redis] = [await FakeOpenAi.start(), await Postgres.create(), await Redis.start()];
    const world = new Deployment(api, database, model);
    world.#rooms.push(
      () => database.drop(),
      () => redis.stop(),
      () => api.stop(),
    );
    try {
      const ports = [await freePort(), await freePort()];
      for (const port of ports) {
        const server = new Server(port, {
          OPENAI_BASE_URL: api.url,
          OPENAI_API_KEY: API_KEY,
          FERMATA_MODEL: 'test-model',
          FERMATA_SUMMARY_MODEL: SUMMARY_MODEL,
          DATABASE_URL: database.url,
          REDIS_URL: redis.url,
          // All pages are at one address, and belong to one person.
          FERMATA_MAX_CONNECTIONS_PER_ADDRESS: '10000',
          ...settings,
        });
        world.instances.push(server);
        world.#rooms.push(() => server.discard());
        await server.start();
      }
      const proxy = await Nginx.startForMany(...ports.map((port) => `127.0.0.1:${port}`));
      world.#rooms.push(() => proxy.stop());
      world.url = proxy.url;
      return world;
    } catch (error) {
      await world.dispose();
      throw error;
    }
  }

  /** @param {string} who @param {string} what */
  note = (who, what) => {
    this.#trace.push(`${String(Date.now() - this.#started).padStart(6)} ${who.padEnd(7)} ${what}`);
  };

  /** Returns the notes about some, and about the instances. @param {string[]} who */
  trace(who) {
    return this.#trace
      .filter((line) => ['deploy', ...who].some((name) => line.slice(7).startsWith(`${name} `)))
      .join('\n');
  }

  /**
   * Has one instance end, and start again.
   *
   * @param {Server} server
   * @param {Manner} manner
   */
  async ends(server, manner) {
    const place = this.instances.indexOf(server) + 1;
    this.note('deploy', `instance ${place} is ${manner}`);
    if (manner === 'killed') await server.kill();
    else await server.end();
    this.count += 1;
    this.note('deploy', `instance ${place} has ended`);
    await server.start();
    this.note('deploy', `instance ${place} has started`);
  }

  /** @param {string} chat @returns {Promise<Message[]>} */
  async messages(chat) {
    const response = await fetch(`${this.instances[0]?.url}/api/chat/${chat}`);
    const { messages } = /** @type {{ messages: Message[] }} */ (await response.json());
    return messages;
  }

  async dispose() {
    for (const tidies of this.#rooms.reverse()) await tidies();
  }
}

/**
 * One round: pages talk while instances end, until each has talked enough.
 *
 * @param {string | number} seed
 * @param {{ manner: Manner, pages?: number }} options
 * @returns {Promise<{ kills: number, requests: number }>}
 */
export async function deployRound(seed, { manner, pages: many = 4 }) {
  const random = new Random('deploys', seed);
  const world = await Deployment.create({
    FERMATA_LINGER: random.pick(['0s', '300ms', '2s']),
    FERMATA_DRAIN: random.pick(['300ms', '2s', '20s']),
    FERMATA_MAX_ATTEMPTS: '1000',
  });
  /** @type {Page[]} */
  const pages = [];
  try {
    for (let place = 1; place <= many; place += 1) {
      const client = random.chance(0.7) ? newestOf(7) : random.pick(CLIENTS);
      pages.push(await Page.open(world, `p${place}`, client));
    }
    let isOver = false;
    const talks = Promise.all(
      pages.map((page) => talksFor(page, TURNS[manner], random.fork(page.id))),
    ).finally(() => {
      isOver = true;
    });
    const deploys = rollsOut(world, manner, random.fork('deploys'), () => isOver);
    for (const outcome of await Promise.allSettled([talks, deploys]))
      if (outcome.status === 'rejected') throw outcome.reason;
    const faults = [...world.api.verdict, ...pages.flatMap((page) => page.faults)];
    if (manner === 'replaced') faults.push(...pages.flatMap(faultsOfRefusals));
    // A page that has stopped at a fault may be in the middle of an answer.
    if (faults.length === 0) faults.push(...(await faultsOfRecord(world, pages)));
    if (faults.length > 0) throw new Error(faults.join('\n'));
    return { kills: world.count, requests: world.api.requests.length };
  } catch (error) {
    throw new Error(story(seed, world, pages, error), { cause: error });
  } finally {
    for (const page of pages) page.leave();
    await world.dispose();
  }
}

/** @param {Page} page @param {number} turns @param {Random} random */
async function talksFor(page, turns, random) {
  for (let turn = 0; turn < turns && page.faults.length === 0; turn += 1) {
    await pause(random.below(300));
    await page.talks(random.pick(KINDS_OF_TURN));
  }
}

/**
 * Replaces or kills one instance after the other, some times.
 *
 * @param {Deployment} world
 * @param {Manner} manner
 * @param {Random} random
 * @param {() => boolean} isOver
 */
async function rollsOut(world, manner, random, isOver) {
  for (let left = 1 + random.below(ROLLOUTS); left > 0; left -= 1) {
    for (const server of world.instances) {
      await pause(300 + random.below(2000));
      if (isOver()) return;
      await world.ends(server, manner);
      // What a killed instance was at is noticed after some seconds, and must get somewhere before the next one is killed.
      if (manner === 'killed') await pause(LEASE);
    }
  }
}

/** @param {Page} page */
const faultsOfRefusals = ({ id, refusals }) =>
  refusals
    .filter(({ lasted }) => lasted > TAKEN_WITHIN)
    .map(({ what, lasted }) => `${id}: ${what} was refused, and taken only after ${Math.round(lasted)} ms`);

/**
 * The record has what the pages show, and nothing was done twice.
 *
 * @param {Deployment} world
 * @param {Page[]} pages
 */
async function faultsOfRecord(world, pages) {
  const faults = [];
  for (const { id, chat } of pages) {
    const [stored, shown] = [gist(await world.messages(id)), gist(chat.messages)];
    if (stored !== shown) faults.push(`${id} shows\n${shown}\nand the record has\n${stored}`);
  }
  const notes = await world.database.rows(
    'select title, count(*) as times from notes group by title having count(*) > 1',
  );
  for (const { title, times } of notes) faults.push(`the note ${title} was written ${times} times`);
  return faults;
}

/** @param {Message[]} messages */
const gist = (messages) =>
  messages
    .map(({ role, parts }) => `${role}: ${parts.map(({ text, state }) => text ?? state ?? '').join('|')}`)
    .join('\n');

/**
 * Returns the evidence of a failed round.
 *
 * @param {string | number} seed
 * @param {Deployment} world
 * @param {Page[]} pages
 * @param {unknown} error
 */
function story(seed, world, pages, error) {
  const words = error instanceof Error ? (error.stack ?? error.message) : String(error);
  const named = pages.map(({ id }) => id).filter((id) => new RegExp(`\\b${id}\\b`).test(words));
  const found = pages.flatMap(({ faults }) => faults);
  const logs = world.instances.map(
    (server) => `--- log\n${server.log.split('\n').slice(-LOG_LINES).join('\n')}`,
  );
  return [`SEED=${seed} ROUNDS=1 fails:`, words, ...found, world.trace(named), ...logs].join('\n');
}
