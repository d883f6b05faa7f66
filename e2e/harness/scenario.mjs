// @ts-check
// A scenario is one test: a model API, a server between, and pages in front, all its own. Regardless of its
// subject, four things hold at its end: the model API has nothing to complain of, no page has met an error that
// was not expected, no page has made a request that nobody asked for, and every page shows the messages that
// the server has stored, part by part.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VERSIONS, newestOf } from './clients.mjs';
import { comparable, sorted } from './comparable.mjs';
import { EventStream } from './events.mjs';
import { API_KEY, FakeOpenAi } from './fake-openai.mjs';
import { Page } from './page.mjs';
import { freePort } from './ports.mjs';
import { Server } from './server.mjs';
import { until } from './until.mjs';

/** @typedef {import('./clients.mjs').Client} Client */
/** @typedef {import('./clients.mjs').Version} Version */
/** @typedef {import('./page.mjs').Message} Message */

/** The number of lines of the server's log that a failed scenario shows. */
const LOG_LINES = 40;
/** When a scenario is given up, in milliseconds. */
export const HOPELESS = 90_000;

/** Tools that a page runs, in the form that the AI SDK posts them. */
export const BROWSER_TOOLS = {
  get_location: {
    description: 'Tells where the browser is.',
    parameters: { type: 'object', properties: { accuracy: { type: 'string' } } },
  },
  pick_color: {
    description: 'Lets the person pick a colour.',
    parameters: { type: 'object', properties: { palette: { type: 'string' } } },
  },
};

/**
 * The options of a world.
 *
 * @typedef {object} WorldOptions
 * @property {Record<string, string>} [settings] of the server
 * @property {string[]} [through] a command that starts the server when the binary is its last argument
 * @property {string | ((place: Place) => string | Promise<string>)} [config] what its `fermata.toml` says
 */
/**
 * @typedef {object} OwnOptions
 * @property {Version[]} [versions] the client versions it is run with; all of them, if it does not say
 * @property {string | undefined} [skip] what it needs and this machine has not
 * @property {string} [todo] what the server does not do yet; the scenario runs, and may fail
 */
/** @typedef {WorldOptions & OwnOptions} ScenarioOptions */
/**
 * The place that a settings file may refer to.
 *
 * @typedef {import('./mcp.mjs').Place} Place
 */

/**
 * Declares a test and runs it once with the newest client of each version.
 *
 * @param {string} name the fact that it shows
 * @param {ScenarioOptions} options
 * @param {(world: World) => Promise<void>} body
 */
export function scenario(name, { versions = VERSIONS, skip, todo, ...options }, body) {
  for (const client of versions.map(newestOf)) {
    const own = { timeout: HOPELESS, ...(skip && { skip }), ...(todo && { todo }) };
    test(
      `${name} (ai ${client.package})`,
      own,
      async (context) => void (await playOut(client, options, body, context)),
    );
  }
}

/**
 * Makes a world, lets something happen in it, and judges it.
 *
 * @template T
 * @param {Client} client
 * @param {WorldOptions} options
 * @param {(world: World) => Promise<T>} body
 * @param {{ diagnostic(message: string): void }} context where it says what may explain a failure
 * @returns {Promise<{ world: World, outcome: T }>} the world as it was left, and what the body has to say
 */
export async function playOut(client, options, body, context) {
  const world = await World.create(client, options);
  try {
    const outcome = await body(world);
    await world.judge();
    return { world, outcome };
  } catch (error) {
    context.diagnostic(`faults of the model requests: ${world.model.verdict.join('; ') || 'none'}`);
    for (const line of world.server.log.split('\n').slice(-LOG_LINES)) context.diagnostic(line);
    throw error;
  } finally {
    await world.dispose();
  }
}

export class World {
  id = 'chat-1';
  /** The pages that are looked at in the end. */
  /** @type {Page[]} */
  #pages = [];
  /** All that there ever were. */
  /** @type {Page[]} */
  pages = [];
  /** @type {EventStream[]} */
  #streams = [];
  /** @type {(() => void)[]} */
  #ends = [];
  #expectsErrors = false;
  /** Ids of messages whose parts were ended in the record after their last reader was gone. */
  /** @type {Set<string>} */
  #abandoned = new Set();

  /**
   * @param {Client} client that its pages use
   * @param {FakeOpenAi} model
   * @param {Server} server
   */
  constructor(client, model, server) {
    this.client = client;
    this.version = client.profile;
    this.model = model;
    this.server = server;
  }

  /**
   * @param {Client} client
   * @param {WorldOptions} options
   */
  static async create(client, { settings, through, config }) {
    const model = await FakeOpenAi.start();
    const api = { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: API_KEY, FERMATA_MODEL: 'test-model' };
    const world = new World(client, model, new Server(await freePort(), { ...api, ...settings }, through));
    try {
      if (config !== undefined)
        world.server.configure(typeof config === 'string' ? config : await config(world));
      await world.server.start();
      return world;
    } catch (error) {
      await world.dispose();
      throw error;
    }
  }

  get folder() {
    return this.server.folder;
  }

  /** @param {() => void} end what is done when the scenario is over */
  atEnd(end) {
    this.#ends.push(end);
  }

  // --- in front of the server ---

  /** @param {import('./page.mjs').PageOptions} [options] */
  async page(options) {
    const page = await Page.open(this.client, this.server.url, this.id, options);
    this.#pages.push(page);
    this.pages.push(page);
    return page;
  }

  /**
   * POST /api/chat with plain HTTP.
   *
   * @param {string} words
   * @param {Record<string, unknown>} [more] fields of the body
   * @param {Record<string, string>} [headers]
   */
  async post(words, more = {}, headers = {}) {
    const body = {
      id: this.id,
      messages: [{ role: 'user', content: words }],
      fermata: { client: this.version },
      ...more,
    };
    return this.#open('/api/chat', { body, headers });
  }

  /**
   * GET /api/chat/{id}/stream with plain HTTP.
   *
   * @param {Record<string, string>} [headers]
   */
  async follow(headers = {}) {
    return this.#open(`/api/chat/${this.id}/stream`, { headers });
  }

  /**
   * Answers parked calls and returns what the server says about them.
   *
   * @param {Record<string, unknown>} answer
   */
  async answer(answer) {
    const response = await this.request('POST', '/chat/tool-result', { chatId: this.id, ...answer });
    const said = await response.text();
    assert.equal(response.status, 200, `the answer was not taken: ${said}`);
    return /** @type {{ calls: { toolCallId: string, state: string, waitingFor: string[] }[] }} */ (
      JSON.parse(said)
    ).calls;
  }

  /**
   * An answer that may be refused.
   *
   * @param {Record<string, unknown>} answer
   * @param {Record<string, string>} [headers]
   */
  async tries(answer, headers = {}) {
    const response = await this.request('POST', '/chat/tool-result', { chatId: this.id, ...answer }, headers);
    return { status: response.status, body: /** @type {Record<string, any>} */ (await response.json()) };
  }

  /**
   * Waits until the server has a tool, as it is listed.
   *
   * @param {string} name
   */
  async offers(name) {
    return until(
      async () => (await this.tools()).find((tool) => tool.name === name),
      () => `the tool ${name}`,
    );
  }

  /** The tools of the server. */
  async tools() {
    const response = await this.request('GET', '/api/tools');
    assert.equal(response.status, 200);
    return /** @type {{ tools: ListedTool[] }} */ (await response.json()).tools;
  }

  /** Stops the open run. */
  async stop() {
    const response = await this.request('POST', `/api/chat/${this.id}/stop`);
    assert.equal(response.status, 204, await response.text());
  }

  /**
   * The calls that wait for somebody.
   *
   * @param {string} [chat] the world's own, if left out
   */
  async pending(chat = this.id) {
    const response = await this.request('GET', `/api/chat/${chat}/pending`);
    assert.equal(response.status, 200);
    return /** @type {{ pending: Pending[] }} */ (await response.json()).pending;
  }

  /** The stored messages. */
  async stored() {
    const response = await this.request('GET', `/api/chat/${this.id}`);
    assert.equal(response.status, 200);
    return /** @type {{ messages: Message[] }} */ (await response.json()).messages;
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {unknown} [body]
   * @param {Record<string, string>} [headers]
   */
  async request(method, path, body, headers = {}) {
    return fetch(this.server.url + path, {
      method,
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  // --- what must hold ---

  /** From here on a page may meet errors, and the scenario looks at them itself. */
  expectErrors() {
    this.#expectsErrors = true;
  }

  /**
   * The page could not see how the parts of this message ended; the rest of the message still has to be
   * equal.
   *
   * @param {Message} message
   */
  abandons(message) {
    this.#abandoned.add(message.id);
  }

  /**
   * The page is not looked at any more.
   *
   * @param {Page} page
   */
  async close(page) {
    this.#pages = this.#pages.filter((other) => other !== page);
    await page.leave();
  }

  /** Checks the rules that hold at the end of every scenario. */
  async judge() {
    for (const page of this.#pages) {
      await page.settles();
      if (!this.#expectsErrors) assert.deepEqual(page.errors, [], 'errors of a page');
      await this.#judgeMessages(page);
    }
    for (const page of this.pages)
      assert.deepEqual(page.made, page.asked, 'the requests that a page made, and those that were asked for');
    assert.deepEqual(this.model.verdict, [], 'faults of the requests that the model was sent');
    assert.ok(this.server.alive, 'the server has ended');
  }

  async dispose() {
    for (const stream of this.#streams) stream.leave();
    await this.server.discard();
    await Promise.all(this.#pages.map((page) => page.leave()));
    await this.model.stop();
    for (const end of this.#ends) end();
  }

  /** @param {Page} page */
  async #judgeMessages(page) {
    /** @type {unknown[]} */
    let shown = [];
    /** @type {unknown[]} */
    let stored = [];
    const isEqual = async () => {
      const record = await this.stored();
      shown = comparable(page.messages, page, this.#abandoned);
      stored = comparable(record, page, this.#abandoned);
      return JSON.stringify(sorted(shown)) === JSON.stringify(sorted(stored));
    };
    // The record of a message may follow its last chunk by a moment; only an equal one ends the wait.
    await until(isEqual, 'the stored messages to be those of the page').catch(() => {});
    assert.deepStrictEqual(
      stored,
      shown,
      'the stored messages (actual) are not those of the page (expected)',
    );
  }

  /**
   * @param {string} path
   * @param {{ body?: unknown, headers?: Record<string, string> }} request
   */
  async #open(path, request) {
    const stream = await EventStream.open(this.server.url + path, request);
    this.#streams.push(stream);
    return stream;
  }
}

/**
 * @typedef {{ id: string, tool: string, input: unknown, kind: string, state: string, since: string, expires?:
 * string, server?: string }} Pending
 */
/**
 * @typedef {{ name: string, description: string, inputSchema: object, runBy: string, policy: string,
 * resource?: string }} ListedTool
 */
