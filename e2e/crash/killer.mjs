// @ts-check
// Kills instances the hard way and starts them again, at moments that its seed has chosen: so many events of
// a kind after the last time, and perhaps a moment later. Of several instances some are ended in good order,
// and some stand still for a while.

import { chatOf } from './model.mjs';

/** @typedef {import('./world.mjs').CrashWorld} CrashWorld */
/** @typedef {import('../harness/random.mjs').Random} Random */
/** @typedef {import('../harness/server.mjs').Server} Server */

const EVENTS = [
  'a request is sent',
  'a request was sent',
  'a chunk came',
  'the model was asked',
  'the model said something',
  'time goes by',
];
/** At most so many of an event come before a kill. */
const MANY = { 'a chunk came': 40, 'the model said something': 25 };
const TICK = 10;
/** For how long an instance stands still, in milliseconds: an instance counts as alive for ten seconds. */
const STALLS = [300, 3_000, 13_000];

export class Killer {
  kills = 0;
  #ticks;
  #resting = false;
  /** What it is in the middle of: the clients may be through before an instance has ended in good order. */
  #atWork = Promise.resolve();

  /**
   * @param {CrashWorld} world
   * @param {Random} random
   */
  constructor(world, random) {
    this.world = world;
    this.random = random;
    this.#ticks = setInterval(() => world.listens('time goes by'), TICK);
  }

  /**
   * Kills and starts again, as often as its seed says; returns when the next kill, which is the last, is due.
   */
  async works() {
    const times = this.random.below(4);
    for (let time = 0; time <= times; time += 1) {
      await this.#moment(time);
      if (this.#resting || time === times) return;
      const server = this.random.pick(this.world.servers);
      const manner = this.random.next();
      const isOneOfMany = this.world.servers.length > 1;
      if (isOneOfMany && manner < 0.12) this.#atWork = this.#stalls(server);
      else if (isOneOfMany && manner < 0.4) this.#atWork = this.#replaces(server);
      else this.#atWork = this.#crashes(server);
      await this.#atWork;
    }
  }

  /** @param {Server} server */
  async #crashes(server) {
    await this.#kills(server);
    // Now and then it does not live long.
    if (this.random.chance(0.15)) {
      const starts = server.start();
      await this.#pause(this.random.below(60));
      await Promise.all([starts.catch(() => {}), server.kill()]);
    }
    await this.#starts(server);
  }

  /** Ends it in good order, as a deployment does. @param {Server} server */
  async #replaces(server) {
    this.kills += 1;
    this.#notes('ends', server);
    await server.end();
    await this.#starts(server);
  }

  /** Has it stand still, perhaps past its lease. @param {Server} server */
  async #stalls(server) {
    this.kills += 1;
    this.#notes('stops', server);
    server.signal('SIGSTOP');
    await this.#pause(this.random.pick(STALLS));
    server.signal('SIGCONT');
    this.#notes('lets go on', server);
  }

  /** @param {Server} server */
  async #starts(server) {
    if (!this.#resting) await server.start();
    this.#notes('has started', server);
  }

  /** @param {string} what @param {Server} server */
  #notes(what, server) {
    this.world.note('killer', `${what} instance ${this.world.servers.indexOf(server) + 1}`);
  }

  /**
   * The last kill, of all instances, once all clients have stopped.
   *
   * @param {() => string[]} certain the chats of which it is known what was asked of them
   * @returns {Promise<Map<string, number>>} of the chats that the model was speaking in: how often it had
   * been asked
   */
  async ends(certain) {
    this.#resting = true;
    await this.#atWork;
    const speaking = this.world.spoken;
    const cut = certain().filter((chat) => speaking.has(chat));
    const asked = new Map(
      cut.map((chat) => [chat, this.world.asked.filter((request) => chatOf(request) === chat).length]),
    );
    await Promise.all(this.world.servers.map((server) => this.#kills(server)));
    await Promise.all(this.world.servers.map((server) => server.start()));
    this.world.note('killer', 'started all again');
    return asked;
  }

  rests() {
    this.#resting = true;
    clearInterval(this.#ticks);
    this.world.listens = () => {};
  }

  /** @param {Server} server */
  async #kills(server) {
    this.kills += 1;
    await server.kill();
    this.#notes('has killed', server);
  }

  /** @param {number} time */
  async #moment(time) {
    const random = this.random.fork('moment', time);
    const event = random.pick(EVENTS);
    let left = 1 + random.below(/** @type {Record<string, number>} */ (MANY)[event] ?? 12);
    await new Promise((/** @type {(value: void) => void} */ resolve) => {
      this.world.listens = (happened) => {
        if (happened === event) left -= 1;
        if (left <= 0) resolve();
      };
    });
    if (random.chance(0.5)) await this.#pause(random.below(12));
  }

  /** @param {number} time in milliseconds */
  async #pause(time) {
    await new Promise((resolve) => setTimeout(resolve, time));
  }
}
