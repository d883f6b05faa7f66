// @ts-check
// Kills instances the hard way and starts them again, at moments that its seed has chosen: so many events of
// a kind after the last time, and perhaps a moment later. Of several instances some are ended in good order,
// and some stand still for a while. If it may, it has other things fail instead, two of them at once at times.

import { someFault } from './faults.mjs';
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
/** A stall of this many milliseconds may end the lease of an instance. */
const LONG_STALL = 7_500;
/** When hope is lost that an instance starts, in milliseconds. */
const HOPELESS = 60_000;
/** The name of the one fault that is wanted, if only one is. */
const { FAULT } = process.env;

export class Killer {
  kills = 0;
  #ticks;
  #resting = false;
  /** The work in progress: the clients may be through before an instance has ended in good order. */
  /** @type {Promise<unknown>} */
  #atWork = Promise.resolve();
  /** The instances that are being killed or replaced: the code that does that starts them again. */
  /** @type {Set<Server>} */
  #touched = new Set();

  /**
   * @param {CrashWorld} world
   * @param {Random} random
   * @param {boolean} faults whether other things also fail
   */
  constructor(world, random, faults) {
    this.world = world;
    this.random = random;
    this.faults = faults;
    this.#ticks = setInterval(() => world.listens('time goes by'), TICK);
  }

  /**
   * Kills and starts again, as often as its seed says; returns when the next kill, which is the last, is due.
   */
  async works() {
    const times = this.random.below(4) + (this.faults ? 1 : 0);
    for (let time = 0; time <= times; time += 1) {
      await this.#moment(time);
      if (this.#resting || time === times) return;
      const both = this.faults && this.random.chance(0.25);
      this.#atWork = Promise.all([this.#strikes(), both ? this.#strikes() : undefined]);
      await this.#atWork;
    }
  }

  /** Has one thing go wrong, and be well again. */
  async #strikes() {
    if (this.faults && (FAULT !== undefined || this.random.chance(0.75))) {
      const fault = someFault(this.world, this.random, FAULT);
      this.kills += 1;
      await fault?.strikes(this.world, this.random);
      return;
    }
    const untouched = this.world.servers.filter((server) => !this.#touched.has(server));
    if (untouched.length === 0) return;
    const server = this.random.pick(untouched);
    const manner = this.random.next();
    const isOneOfMany = this.world.servers.length > 1;
    this.#touched.add(server);
    try {
      if (isOneOfMany && manner < 0.12) await this.#stalls(server);
      else if (isOneOfMany && manner < 0.4) await this.#replaces(server);
      else await this.#crashes(server);
    } finally {
      this.#touched.delete(server);
    }
  }

  /** Notes that runs of an instance may be cut off. @param {Server} server */
  #harms(server) {
    return this.world.harm(this.world.instances.filter((instance) => instance.server === server));
  }

  /** @param {Server} server */
  async #crashes(server) {
    const over = this.#harms(server);
    await this.#kills(server);
    // Now and then it does not live long.
    if (this.random.chance(0.15)) {
      const starts = server.start().catch(() => {});
      await this.#pause(this.random.below(60));
      await Promise.all([starts, server.kill()]);
    }
    await this.#starts(server);
    over();
  }

  /** Ends it in good order, as a deployment does. @param {Server} server */
  async #replaces(server) {
    this.kills += 1;
    this.#notes('ends', server);
    const over = this.#harms(server);
    await server.end();
    await this.#starts(server);
    over();
  }

  /** Has it stand still, perhaps past its lease. @param {Server} server */
  async #stalls(server) {
    this.kills += 1;
    this.#notes('stops', server);
    const time = this.random.pick(STALLS);
    const over = time >= LONG_STALL ? this.#harms(server) : () => {};
    server.signal('SIGSTOP');
    await this.#pause(time);
    server.signal('SIGCONT');
    this.#notes('lets go on', server);
    over();
  }

  /** @param {Server} server */
  async #starts(server) {
    const hopeless = Date.now() + HOPELESS;
    while (!this.#resting && !server.alive) {
      // It does not start while its database is away; the code that ended it starts it again.
      await server.start().catch((error) => {
        if (!this.faults || Date.now() > hopeless) throw error;
      });
    }
    this.#notes('has started', server);
  }

  /** @param {string} what @param {Server} server */
  #notes(what, server) {
    this.world.note('killer', `${what} instance ${this.world.servers.indexOf(server) + 1}`);
  }

  /**
   * The last kill, of all instances, once all clients have stopped.
   *
   * @param {() => string[]} certain the chats whose questions are known, and that were certainly not stopped
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
