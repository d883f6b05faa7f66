// @ts-check
// The network between an instance and one of its stores: a TCP proxy that can be made slow, cut, or made to swallow what it is
// given, while connections lead through it.

import net from 'node:net';
import { freePort } from './ports.mjs';

/** @typedef {{ host: string, port: number }} Target */
/**
 * @typedef {object} Pair
 * @property {net.Socket} client
 * @property {net.Socket} server
 * @property {boolean} isDead if nothing that is sent on it arrives any more, in either direction
 * @property {Array<() => void>} held what arrives once the link is well again
 */

/** PostgreSQL's simple query that ends a transaction. */
const COMMIT = /Q\0\0\0[^]commit\0/i;

export class Link {
  /** @type {Set<Pair>} */
  #pairs = new Set();
  #server;
  #port;
  /** @type {Target} */
  #target;
  /** In milliseconds, each way. */
  #delay = 0;
  /** @type {'well' | 'cut' | 'held'} */
  #state = 'well';
  /** The fate of the reply to the next COMMIT. */
  /** @type {'arrives' | 'swallowed' | 'cut'} */
  #nextCommit = 'arrives';

  /**
   * @param {net.Server} server
   * @param {number} port
   * @param {Target} target
   */
  constructor(server, port, target) {
    this.#server = server;
    this.#port = port;
    this.#target = target;
    server.on('connection', (client) => this.#connect(client));
  }

  /** @param {Target} target */
  static async open(target) {
    const server = net.createServer();
    const port = await freePort();
    const link = new Link(server, port, target);
    await new Promise((resolve) => server.listen(port, '127.0.0.1', () => resolve(undefined)));
    return link;
  }

  /** A URL that leads through the link. @param {string} url */
  through(url) {
    const led = new URL(url);
    led.hostname = '127.0.0.1';
    led.port = String(this.#port);
    return String(led);
  }

  /** Everything takes this many milliseconds longer. @param {number} delay */
  slowDown(delay) {
    this.#delay = delay;
  }

  /** Breaks all connections, and refuses new ones. */
  cut() {
    this.#state = 'cut';
    for (const pair of this.#pairs) end(pair);
  }

  /** Holds back everything that is sent, until the link is well again. */
  hold() {
    this.#state = 'held';
  }

  /** Forgets all connections that there are, as a firewall does: what is sent on them never arrives. New ones work. */
  forget() {
    for (const pair of this.#pairs) pair.isDead = true;
  }

  /** Breaks one of the connections. @param {import('./random.mjs').Random} random */
  breakOne(random) {
    if (this.#pairs.size > 0) end(random.pick([...this.#pairs]));
  }

  /** Lets the next COMMIT arrive, and not its reply. @param {'swallowed' | 'cut'} how */
  loseNextCommit(how) {
    this.#nextCommit = how;
  }

  /** Leads new connections to another server. @param {Target} target */
  leadTo(target) {
    this.#target = target;
  }

  mend() {
    this.#state = 'well';
    this.#delay = 0;
    this.#nextCommit = 'arrives';
    for (const pair of this.#pairs) for (const deliver of pair.held.splice(0)) deliver();
  }

  async close() {
    this.#state = 'cut';
    for (const pair of this.#pairs) end(pair);
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** @param {net.Socket} client */
  #connect(client) {
    if (this.#state === 'cut') {
      client.destroy();
      return;
    }
    const server = net.connect({ ...this.#target, noDelay: true });
    /** @type {Pair} */
    const pair = { client, server, isDead: false, held: [] };
    client.setNoDelay(true);
    this.#pairs.add(pair);
    for (const [from, to] of [
      [client, server],
      [server, client],
    ]) {
      from?.on('data', (bytes) => this.#pass(pair, /** @type {net.Socket} */ (to), bytes));
      from?.on('error', () => end(pair));
      from?.on('close', () => {
        // A connection that was forgotten looks open to its holder.
        if (!pair.isDead || from === client) {
          this.#pairs.delete(pair);
          end(pair);
        }
      });
    }
  }

  /**
   * @param {Pair} pair
   * @param {net.Socket} to
   * @param {Buffer} bytes
   */
  #pass(pair, to, bytes) {
    if (pair.isDead) return;
    const deliver = () => {
      if (!to.destroyed && !pair.isDead) to.write(bytes);
    };
    if (to === pair.server && this.#nextCommit !== 'arrives' && COMMIT.test(bytes.toString('latin1'))) {
      const how = this.#nextCommit;
      this.#nextCommit = 'arrives';
      to.write(bytes, () => {
        // The server may finish what it was sent.
        if (how === 'swallowed') pair.isDead = true;
        else setTimeout(() => end(pair), 20);
      });
      if (how === 'cut') pair.server.removeAllListeners('data').resume();
      return;
    }
    if (this.#state === 'held' || pair.held.length > 0) pair.held.push(deliver);
    else if (this.#delay > 0) setTimeout(deliver, this.#delay);
    else deliver();
  }
}

/**
 * Both ends see an end, and no reset: a socket that is reset while it is being shut down keeps Node.js from exiting.
 *
 * @param {Pair} pair
 */
function end({ client, server }) {
  client.destroy();
  server.destroy();
}
