// @ts-check
// A page of the package with a person before it, who sends a message, approves what is asked, waits for the end of the answer and sends the
// next one. It notes what a person would take for a fault, although nothing was wrong but that instances end or die.

import { load } from '../harness/clients.mjs';
import { chatPackage } from '../harness/chat-package.mjs';
import { until } from '../harness/until.mjs';
import { faultOfWords, keyOf, says } from './words.mjs';

/** @typedef {import('../harness/clients.mjs').Client} Client */
/** @typedef {import('../harness/chat-package.mjs').Chat} Chat */
/** @typedef {import('../harness/sdk.mjs').Message} Message */
/** @typedef {import('./words.mjs').Kind} Kind */
/** @typedef {import('./words.mjs').NumberingModel} NumberingModel */

/** From this release on, words can be taken back. */
const RESET_STEP = [7, 0, 70];
/** When hope is lost that an answer ends, in milliseconds. */
const HOPELESS = 150_000;

/**
 * The surroundings of a page.
 *
 * @typedef {object} World
 * @property {string} url of the proxy
 * @property {NumberingModel} model
 * @property {(who: string, what: string) => void} note
 */

/** The state that a framework keeps for the AI SDK. */
class State {
  #status = 'ready';
  /** @type {Message[]} */
  #messages = [];
  /** @type {Error | undefined} */
  error = undefined;
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
  }
  get status() {
    return this.#status;
  }
  set status(status) {
    if (status === this.#status) return;
    this.#status = status;
    this.changed();
  }
  get messages() {
    return this.#messages;
  }
  set messages(messages) {
    this.#messages = messages;
    this.changed();
  }
  pushMessage = (/** @type {Message} */ message) => {
    this.messages = [...this.#messages, structuredClone(message)];
  };
  popMessage = () => {
    this.messages = this.#messages.slice(0, -1);
  };
  replaceMessage = (/** @type {number} */ index, /** @type {Message} */ message) => {
    this.messages = this.#messages.with(index, structuredClone(message));
  };
  snapshot = (/** @type {unknown} */ thing) => structuredClone(thing);
}

/** A post or an answer that was refused, until it is taken. */
/** @typedef {{ what: string, since: number, tries: number }} Refused */

export class Page {
  /** @type {string[]} */
  faults = [];
  /** For how long a post or an answer was refused before it was taken, in milliseconds. */
  /** @type {{ what: string, lasted: number }[]} */
  refusals = [];
  /** The longest time without progress on the page while the server was to make some, for each answer, in milliseconds. */
  /** @type {number[]} */
  stalls = [];
  turn = 0;
  /** @type {Kind} */
  #kind = 'plain';
  #isTalking = false;
  /** `true` if its words are looked at whenever one comes, and not only at the end of an answer. */
  isWatched = true;
  /** The approvals that it was shown, and calls that it has run, in this turn. */
  #asked = new Set();
  #runs = 0;
  #leave = () => {};
  /** @type {Map<string, Refused>} by what is sent */
  #refused = new Map();
  #shown = '';
  #status = 'ready';
  #progressAt = 0;
  #longest = 0;
  #isPersonsTurn = false;
  /** @type {Chat} */
  chat;

  /**
   * @param {World} world
   * @param {string} id
   * @param {Client} client
   */
  static async open(world, id, client) {
    const [{ AbstractChat }, { fermata }] = await Promise.all([load(client), chatPackage(client)]);
    class MemoryChat extends AbstractChat {
      /** @param {{ changed: () => void }} init */
      constructor({ changed, ...init }) {
        super({ ...init, state: new State(changed) });
      }
    }
    return new Page(world, id, client, MemoryChat, fermata);
  }

  /**
   * @param {World} world
   * @param {string} id
   * @param {Client} client
   * @param {new (init: any) => object} MemoryChat
   * @param {import('../harness/chat-package.mjs').Package['fermata']} fermata
   */
  constructor(world, id, client, MemoryChat, fermata) {
    this.world = world;
    this.id = id;
    const version = client.package.split('.').map(Number);
    const at = RESET_STEP.findIndex((number, place) => number !== version[place]);
    this.canTakeBack = at < 0 || Number(version[at]) > Number(RESET_STEP[at]);
    this.isVersion5 = client.profile === 5;
    const tools = {
      get_location: {
        description: 'Where this browser is.',
        inputSchema: { type: 'object', properties: { key: { type: 'string' } } },
        execute: async () => {
          this.#runs += 1;
          await new Promise((resolve) => setTimeout(resolve, 50));
          return { city: 'Bern' };
        },
      },
    };
    const server = fermata({
      api: `${world.url}/api/chat`,
      fetch: /** @type {typeof fetch} */ ((url, init) => this.#fetch(String(url), init)),
      tools,
      onConnection: (connection) => world.note(id, `= ${connection}`),
    });
    this.chat = server.chat(MemoryChat, {
      id,
      changed: () => this.#changed(),
      onError: (/** @type {Error} */ error) => this.#fault(`the page was told of an error: ${error}`),
    });
    this.#leave = this.chat.open({ isNew: true });
    world.note(id, `is a page with ai ${client.package}`);
  }

  leave() {
    this.#leave();
  }

  /** @param {string} what */
  #fault(what) {
    this.world.note(this.id, `! ${what}`);
    this.faults.push(`${this.id}, turn ${this.turn}: ${what}`);
  }

  get #key() {
    return keyOf(this.id, this.turn);
  }

  get #answer() {
    const last = this.chat.messages.at(-1);
    return last?.role === 'assistant' ? last : undefined;
  }

  /** `true` if the answer is over on the server, as far as the model knows. */
  get #isSaid() {
    return this.world.model.finished.has(this.#key);
  }

  #changed() {
    // It receives the first status while it is constructed.
    if (this.chat === undefined || !this.#isTalking) return;
    const { status } = this.chat;
    if (status !== this.#status) this.#hasStatus(status);
    const answer = this.#answer;
    const fault = answer && this.isWatched ? faultOfWords(answer, this.#key) : undefined;
    if (fault !== undefined) this.#fault(`the page shows words that do not follow each other: ${fault}`);
    this.#notesProgress();
    if (answer !== undefined) void this.#approves(answer);
  }

  /** @param {string} status */
  #hasStatus(status) {
    this.#status = status;
    if (status === 'error') this.#fault('the status is error');
    if (status === 'ready' && !this.#isSaid && this.canTakeBack)
      this.#fault('the status is ready, and the answer is not over');
  }

  #notesProgress() {
    const parts = this.#answer?.parts ?? [];
    const shown = parts.map(({ text, state }) => `${text?.length ?? ''}${state ?? ''}`).join();
    const now = performance.now();
    if (shown === this.#shown && !this.#isPersonsTurn) return;
    if (!this.#isPersonsTurn) this.#longest = Math.max(this.#longest, now - this.#progressAt);
    [this.#shown, this.#progressAt] = [shown, now];
  }

  /**
   * The reaction of a person to a question.
   *
   * @param {Message} answer
   */
  async #approves({ parts }) {
    for (const part of parts) {
      const isAsked = this.isVersion5
        ? part.type === 'data-tool-approval'
        : part.state === 'approval-requested';
      const data = /** @type {{ approvalId?: string } | undefined} */ (part.data);
      const id = isAsked ? (part.approval?.id ?? data?.approvalId) : undefined;
      if (id === undefined || this.#asked.has(id)) continue;
      this.#asked.add(id);
      this.world.note(this.id, `= asked ${id}`);
      this.#isPersonsTurn = true;
      await new Promise((resolve) => setTimeout(resolve, 300));
      this.#isPersonsTurn = false;
      this.#progressAt = performance.now();
      await this.chat
        .addToolApprovalResponse({ id, approved: true })
        .catch((error) => this.#fault(`the approval was refused: ${error}`));
    }
  }

  /**
   * @param {string} url
   * @param {RequestInit} [init]
   */
  async #fetch(url, init) {
    const method = init?.method ?? 'GET';
    const what = `${method} ${new URL(url).pathname}`;
    const written = method === 'POST' ? `${what} ${init?.body}` : undefined;
    /** @param {number | string} status */
    const refused = (status) => {
      this.world.note(this.id, `< ${status} ${what}`);
      if (written === undefined) return;
      const before = this.#refused.get(written) ?? { what, since: performance.now(), tries: 0 };
      this.#refused.set(written, { ...before, tries: before.tries + 1 });
    };
    try {
      const response = await fetch(url, init);
      if (response.status >= 500) refused(response.status);
      else if (written !== undefined) {
        const before = this.#refused.get(written);
        this.#refused.delete(written);
        if (before !== undefined) this.refusals.push({ what, lasted: performance.now() - before.since });
        this.world.note(this.id, `< ${response.status} ${what}`);
      }
      return response;
    } catch (error) {
      if (init?.signal?.aborted !== true) refused(String(error));
      throw error;
    }
  }

  /**
   * Sends a message and waits until its answer is over.
   *
   * @param {Kind} kind
   */
  async talks(kind) {
    this.turn += 1;
    this.#kind = kind;
    this.#asked.clear();
    this.#runs = 0;
    this.#shown = '';
    this.#longest = 0;
    this.#progressAt = performance.now();
    this.world.note(this.id, `> ${kind} ${this.turn}`);
    this.#isTalking = true;
    void this.chat.sendMessage({ text: says(this.id, this.turn, kind) });
    await until(
      // Once something was wrong, nobody waits for what comes of it.
      () =>
        this.faults.length > 0 ||
        (this.#isSaid && this.chat.status === 'ready' && this.chat.connection === 'closed'),
      () =>
        `${this.#key} (${kind}) to be over; it is ${this.chat.status} and ${this.chat.connection}, ` +
        `it ${this.#isSaid ? 'was' : 'was not'} said, and shows ${JSON.stringify(this.#answer?.parts).slice(-400)}`,
      HOPELESS,
    );
    this.#isTalking = false;
    this.stalls.push(Math.max(this.#longest, performance.now() - this.#progressAt));
    this.#examines();
  }

  #examines() {
    const answer = this.#answer;
    const fault = answer === undefined ? 'there is no answer' : faultOfWords(answer, this.#key, this.#kind);
    if (fault !== undefined) this.#fault(`at the end: ${fault}`);
    const asked = this.#kind === 'asks' ? 1 : 0;
    if (this.#asked.size !== asked) this.#fault(`it was asked ${this.#asked.size} times`);
    const runs = this.#kind === 'page' ? 1 : 0;
    if (this.#runs !== runs) this.#fault(`the page has run ${this.#runs} calls`);
  }
}
