// @ts-check
// Several instances of the built binary on one PostgreSQL database and one Redis, and a model API. No load
// balancer stands in front: the test says which instance each request goes to.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventStream } from './events.mjs';
import { API_KEY, FakeOpenAi } from './fake-openai.mjs';
import { freePort } from './ports.mjs';
import { Server } from './server.mjs';
import { NO_SERVICES, Postgres, Redis } from './services.mjs';
import { until } from './until.mjs';

/** @typedef {import('./page.mjs').Message} Message */
/** @typedef {import('./scenario.mjs').Pending} Pending */
/**
 * @typedef {object} ClusterOptions
 * @property {number} [instances]
 * @property {Record<string, string> | ((place: number) => Record<string, string>)} [settings] of all
 * instances, or of each
 * @property {(cluster: Cluster) => string} [config] what the `fermata.toml` of all of them says
 */

/** The number of lines of each instance's log that a failed test shows. */
const LOG_LINES = 40;
/** The number of connections of an instance, so that many tests fit into one PostgreSQL server. */
const CONNECTIONS = '4';

/**
 * Declares a test on a cluster.
 *
 * @param {string} name the fact that it shows
 * @param {ClusterOptions} options
 * @param {(cluster: Cluster) => Promise<void>} body
 */
export function clustered(name, options, body) {
  test(name, { timeout: 120_000, skip: NO_SERVICES ?? false }, async (context) => {
    const cluster = await Cluster.create(options);
    try {
      await body(cluster);
      assert.deepEqual(cluster.model.verdict, [], 'faults of the requests that the model was sent');
    } catch (error) {
      for (const [place, { log }] of cluster.servers.entries()) {
        for (const line of log.split('\n').slice(-LOG_LINES)) context.diagnostic(`${place + 1}: ${line}`);
      }
      context.diagnostic(cluster.outline);
      throw error;
    } finally {
      await cluster.dispose();
    }
  });
}

export class Cluster {
  /** @type {Server[]} */
  servers = [];
  /** @type {EventStream[]} */
  streams = [];

  /**
   * @param {FakeOpenAi} model
   * @param {Postgres} database
   * @param {Redis} redis
   */
  constructor(model, database, redis) {
    this.model = model;
    this.database = database;
    this.redis = redis;
  }

  /** @param {ClusterOptions} options */
  static async create({ instances = 2, settings = {}, config }) {
    const cluster = new Cluster(await FakeOpenAi.start(), await Postgres.create(), await Redis.start());
    try {
      const common = {
        ...cluster.settings,
        OPENAI_BASE_URL: cluster.model.url,
        OPENAI_API_KEY: API_KEY,
        FERMATA_MODEL: 'test-model',
      };
      for (let place = 1; place <= instances; place += 1) {
        const own = typeof settings === 'function' ? settings(place) : settings;
        const server = new Server(await freePort(), { ...common, ...own });
        cluster.servers.push(server);
        if (config !== undefined) server.configure(config(cluster));
        await server.start();
      }
      return cluster;
    } catch (error) {
      await cluster.dispose();
      throw error;
    }
  }

  get settings() {
    return {
      DATABASE_URL: this.database.url,
      REDIS_URL: this.redis.url,
      FERMATA_DATABASE_CONNECTIONS: CONNECTIONS,
    };
  }

  /** A folder that tools of all instances share. */
  get folder() {
    return this.server(1).folder;
  }

  /** @param {number} place counted from 1 */
  server(place) {
    const server = this.servers[place - 1];
    if (server === undefined) throw new Error(`there is no instance ${place}`);
    return server;
  }

  /**
   * A client whose requests go to one instance.
   *
   * @param {number} place counted from 1
   * @param {string} [chat]
   */
  at(place, chat = 'chat-1') {
    return new At(this, this.server(place), chat);
  }

  get outline() {
    return this.streams
      .map((stream) => `${stream.status} ${stream.outline}${stream.done ? ' [DONE]' : ''}`)
      .join('\n');
  }

  async dispose() {
    for (const stream of this.streams) stream.leave();
    for (const server of this.servers) server.signal('SIGCONT');
    await Promise.all(this.servers.map((server) => server.discard()));
    await Promise.all([this.model.stop(), this.redis.stop()]);
    await this.database.drop();
  }
}

/** A client in one chat at one instance. */
export class At {
  #cluster;
  #server;

  /**
   * @param {Cluster} cluster
   * @param {Server} server
   * @param {string} chat
   */
  constructor(cluster, server, chat) {
    this.#cluster = cluster;
    this.#server = server;
    this.chat = chat;
  }

  /**
   * POST /api/chat.
   *
   * @param {string | object[]} messages or the words of one
   * @param {Record<string, unknown>} [more] fields of the body
   */
  async post(messages, more = {}) {
    const posted = typeof messages === 'string' ? [{ role: 'user', content: messages }] : messages;
    return this.#open('/api/chat', {
      body: { id: this.chat, messages: posted, fermata: { client: 7 }, ...more },
    });
  }

  /**
   * GET /api/chat/{id}/stream; a status of 503 is taken for "not yet".
   *
   * @param {Record<string, string>} [headers]
   */
  async follow(headers = {}) {
    return until(async () => {
      const stream = await this.triesToFollow(headers);
      return stream.status !== 503 && stream;
    }, 'the stream at another instance');
  }

  /**
   * The same, for any status.
   *
   * @param {Record<string, string>} [headers]
   */
  async triesToFollow(headers = {}) {
    return this.#open(`/api/chat/${this.chat}/stream`, { headers });
  }

  /**
   * POST /chat/tool-result, repeated while the instance says that it cannot take it yet.
   *
   * @param {Record<string, unknown>} answer
   */
  async answer(answer) {
    const taken = await until(
      async () => {
        const tried = await this.tries(answer);
        return tried.status !== 503 && tried;
      },
      () => `an answer to be taken; ${this.#cluster.outline}`,
    );
    assert.equal(taken.status, 200, `the answer was not taken: ${JSON.stringify(taken.body)}`);
    return taken.body;
  }

  /** @param {Record<string, unknown>} answer */
  async tries(answer) {
    return this.request('POST', '/chat/tool-result', { chatId: this.chat, ...answer });
  }

  /** The chat, once it is known. */
  async view() {
    const { body } = await this.#once('GET', `/api/chat/${this.chat}`);
    return /** @type {{ messages: Message[], pending: Pending[], open: boolean }} */ (body);
  }

  async pending() {
    const { body } = await this.#once('GET', `/api/chat/${this.chat}/pending`);
    return /** @type {{ pending: Pending[] }} */ (body).pending;
  }

  async stop() {
    assert.equal((await this.request('POST', `/api/chat/${this.chat}/stop`)).status, 204);
  }

  async forget() {
    assert.equal((await this.request('DELETE', `/api/chat/${this.chat}`)).status, 204);
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {unknown} [body]
   */
  async request(method, path, body) {
    const posted =
      body === undefined
        ? {}
        : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
    const response = await fetch(this.#server.url + path, { method, ...posted });
    const text = await response.text();
    const json = response.headers.get('content-type')?.includes('json')
      ? /** @type {Record<string, any>} */ (JSON.parse(text))
      : {};
    return { status: response.status, headers: response.headers, body: json };
  }

  /**
   * Waits until the instance has a tool.
   *
   * @param {string} name
   */
  async offers(name) {
    await until(async () => {
      const { body } = await this.request('GET', '/api/tools');
      return body.tools.some((/** @type {{ name: string }} */ tool) => tool.name === name);
    }, `the tool ${name}`);
  }

  /** @param {string} method @param {string} path */
  async #once(method, path) {
    const reply = await until(async () => {
      const tried = await this.request(method, path);
      return tried.status !== 503 && tried;
    }, `${method} ${path} to be answered`);
    assert.equal(reply.status, 200, `${method} ${path}: ${JSON.stringify(reply.body)}`);
    return reply;
  }

  /**
   * @param {string} path
   * @param {{ body?: unknown, headers?: Record<string, string> }} request
   */
  async #open(path, request) {
    const stream = await EventStream.open(this.#server.url + path, request);
    if (stream.status === 200) this.#cluster.streams.push(stream);
    return stream;
  }
}
