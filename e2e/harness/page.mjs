// @ts-check
// A browser page with a chat in it: the AI SDK's own AbstractChat over its own DefaultChatTransport, with the
// messages kept in memory where React or Vue would keep them. Only `fetch` is wrapped, to note the requests
// and to cut one.
//
// Invariant: every request that the page makes was asked for, by a method called here; `postsAgain` asks for
// what the client sends by itself.

import { load } from './clients.mjs';
import { Exchange } from './exchange.mjs';
import { Rendered, decides, isToolPart, nameOf } from './sdk.mjs';
import { until } from './until.mjs';

/** @typedef {import('./clients.mjs').Client} Client */
/** @typedef {import('./clients.mjs').Version} Version */
/** @typedef {import('./sdk.mjs').Message} Message */
/** @typedef {import('./sdk.mjs').Part} Part */
/** @typedef {import('./sdk.mjs').FilePart} FilePart */
/** @typedef {import('./sdk.mjs').ToolPart} ToolPart */
/** @typedef {import('./sdk.mjs').Sdk} Sdk */
/** @typedef {import('./sdk.mjs').Sends} Sends */

/** The requests of a stock client, as the page notes them down. */
const SUBMITS = 'POST /api/chat submit-message';
const REGENERATES = 'POST /api/chat regenerate-message';
const FOLLOWS = 'GET /api/chat/{id}/stream';

/**
 * @typedef {object} PageOptions
 * @property {Record<string, object>} [tools] browser tools, as they are posted
 * @property {Sends} [sends]
 * @property {string} [chosen] the tool that its user has chosen for the next message
 * @property {string} [hold]
 * @property {boolean} [silent] whether it leaves its version unsaid
 * @property {boolean} [hearsEnds] whether it has an `onFinish`, which old releases stumble over where one
 * answer cuts off another
 */

export class Page {
  /** @type {Exchange[]} */
  exchanges = [];
  /** The requests, in their order. */
  /** @type {string[]} */
  asked = [];
  /** @type {Error[]} */
  errors = [];
  /** The reasons for the ends of answers, as `onFinish` received them. */
  /** @type {(string | undefined)[]} */
  finishReasons = [];
  /** The names of the tools that `onToolCall` was called for. */
  /** @type {string[]} */
  toolCalls = [];
  #chat;
  #state;

  /**
   * @param {Sdk} sdk
   * @param {Client} client
   * @param {string} url of the server
   * @param {string} id of the chat
   * @param {PageOptions} options
   */
  constructor(
    sdk,
    client,
    url,
    id,
    { tools, sends = 'never', chosen, hold, silent = false, hearsEnds = false },
  ) {
    this.client = client;
    this.silent = silent;
    this.version = client.profile;
    this.url = url;
    this.id = id;
    this.#state = new Rendered([]);
    const StockChat = class extends sdk.AbstractChat {};
    this.#chat = new StockChat({
      id,
      state: this.#state,
      sendAutomaticallyWhen: decides(sdk, sends),
      onError: (/** @type {Error} */ error) => this.errors.push(error),
      ...(hearsEnds && {
        onFinish: (/** @type {{ finishReason?: string }} */ { finishReason }) =>
          this.finishReasons.push(finishReason),
      }),
      onToolCall: (/** @type {{ toolCall: { toolName: string } }} */ { toolCall }) => {
        this.toolCalls.push(toolCall.toolName);
      },
      transport: new sdk.DefaultChatTransport({
        api: `${url}/api/chat`,
        body: {
          ...(tools ? { tools } : {}),
          ...(chosen ? { selectedToolName: chosen } : {}),
          fermata: { ...(silent ? {} : { client: client.profile }), ...(hold ? { hold } : {}) },
        },
        fetch: (/** @type {string | URL} */ target, /** @type {RequestInit} */ init = {}) =>
          this.#fetch(target, init),
      }),
    });
  }

  /**
   * @param {Client} client
   * @param {string} url
   * @param {string} id
   * @param {PageOptions} options
   */
  static async open(client, url, id, options = {}) {
    return new Page(await load(client), client, url, id, options);
  }

  get messages() {
    return this.#chat.messages;
  }

  get status() {
    return this.#chat.status;
  }

  /** The posts to the chat: the first request, and all that the client sent by itself. */
  get posts() {
    return this.exchanges.filter((exchange) => exchange.method === 'POST');
  }

  /** The last message. */
  get reply() {
    const message = this.messages.at(-1);
    if (message === undefined) throw new Error('the page shows no message');
    return message;
  }

  /** The text of the last message. */
  get words() {
    return this.reply.parts.flatMap((part) => (part.type === 'text' ? [part.text ?? ''] : [])).join('');
  }

  /** All calls that the page shows, oldest first. */
  get calls() {
    return this.messages.flatMap((message) => message.parts).filter(isToolPart);
  }

  /** The requests that were made, in order. */
  get made() {
    return this.exchanges.map((exchange) => {
      const path = new URL(exchange.url).pathname.replace(`/${this.id}/`, '/{id}/');
      return [exchange.method, path, ...(exchange.trigger ? [exchange.trigger] : [])].join(' ');
    });
  }

  /**
   * @param {string} words of a new user message
   * @param {FilePart[]} [files] that go with it
   */
  say(words, files) {
    this.asked.push(SUBMITS);
    void this.#chat.sendMessage({ text: words, ...(files && { files }) });
  }

  /**
   * Changes a user message, and has it answered again.
   *
   * @param {string} messageId
   * @param {string} words
   */
  edit(messageId, words) {
    this.asked.push(SUBMITS);
    void this.#chat.sendMessage({ text: words, messageId });
  }

  /** Has the last answer made again. */
  regenerate() {
    this.asked.push(REGENERATES);
    void this.#chat.regenerate();
  }

  /** Waits until the client has posted the chat again by itself, and is done. */
  async postsAgain() {
    this.asked.push(SUBMITS);
    await until(
      () => this.made.length >= this.asked.length,
      () => `another post of the client; ${this.outline}`,
    );
    await this.settles();
  }

  /**
   * The parts of a type that the page shows, oldest first.
   *
   * @param {string} type
   */
  parts(type) {
    return this.messages.flatMap((message) => message.parts).filter((part) => part.type === type);
  }

  /**
   * Waits until a call of a tool is shown in a state.
   *
   * @param {string} tool
   * @param {string} state
   */
  async shows(tool, state) {
    return until(
      () => this.calls.find((part) => nameOf(part) === tool && part.state === state),
      () => `${tool} in state ${state}; ${this.outline}`,
    );
  }

  /**
   * Waits until the person is asked about a tool, and says which question it is.
   *
   * @param {string} tool
   */
  async isAsked(tool) {
    if (this.version > 5) {
      const part = await this.shows(tool, 'approval-requested');
      if (part.approval === undefined) throw new Error(`a question without an id; ${this.outline}`);
      return { approvalId: part.approval.id, toolCallId: part.toolCallId, input: part.input };
    }
    const question = await until(
      () => this.#questionAsData(tool),
      () => `a question about ${tool}; ${this.outline}`,
    );
    const part = await this.shows(tool, 'input-available');
    return { approvalId: question.approvalId, toolCallId: question.toolCallId, input: part.input };
  }

  /**
   * Version 5 has no question of its own: it comes as a data part.
   *
   * @param {string} tool
   */
  #questionAsData(tool) {
    return this.parts('data-tool-approval')
      .map((part) => /** @type {{ approvalId: string, toolCallId: string, toolName: string }} */ (part.data))
      .find((question) => question.toolName === tool);
  }

  /**
   * Gives the client a tool's output; it posts by itself once it thinks it should.
   *
   * @param {ToolPart} part
   * @param {unknown} output
   */
  async output(part, output) {
    await this.#chat.addToolOutput({ tool: nameOf(part), toolCallId: part.toolCallId, output });
  }

  /**
   * Tells the client that a tool has failed; it posts by itself once it thinks it should.
   *
   * @param {ToolPart} part
   * @param {string} errorText
   */
  async fails(part, errorText) {
    await this.#chat.addToolOutput({
      tool: nameOf(part),
      toolCallId: part.toolCallId,
      state: 'output-error',
      errorText,
    });
  }

  /**
   * Gives the client a decision; it posts by itself once it thinks it should.
   *
   * @param {string} approvalId
   * @param {boolean} approved
   * @param {string} [reason]
   */
  async decide(approvalId, approved, reason) {
    if (this.#chat.addToolApprovalResponse === undefined) throw new Error('this version knows no approvals');
    await this.#chat.addToolApprovalResponse({ id: approvalId, approved, ...(reason ? { reason } : {}) });
  }

  /** Waits for text in the last message. @param {string} words */
  async reads(words) {
    await until(
      () => this.messages.length > 0 && this.words.includes(words),
      () => `"${words}"; ${this.outline}`,
    );
  }

  /**
   * Waits until the client is done and has had the chance to post again by itself: its decision needs no I/O,
   * so one turn of the event loop after the last response is enough.
   */
  async settles() {
    const isDone = () =>
      (this.status === 'ready' || this.status === 'error') &&
      this.exchanges.every((exchange) => exchange.ended);
    do {
      await until(isDone, () => `the client to be done; it is ${this.status}; ${this.outline}`);
      await new Promise((resolve) => setImmediate(resolve));
    } while (!isDone());
  }

  /** Breaks the connection of the last request. */
  cutOff() {
    this.exchanges.at(-1)?.cut();
  }

  /** Shows what the server has stored. */
  async load() {
    const response = await fetch(`${this.url}/api/chat/${this.id}`);
    if (!response.ok) throw new Error(`GET /api/chat/${this.id} gave ${response.status}`);
    const { messages } = /** @type {{ messages: Message[] }} */ (await response.json());
    this.#chat.messages = messages;
  }

  /**
   * Follows the message being written, which a loaded chat lacks; where there is none, the run is over
   * meanwhile.
   */
  async follow() {
    this.asked.push(FOLLOWS);
    await this.#chat.resumeStream();
    if (this.exchanges.at(-1)?.status === 204) await this.load();
  }

  /** Resumes the chat, as a page does when it is opened. */
  async resume() {
    await this.load();
    await this.follow();
  }

  /** The tab is closed. */
  async leave() {
    await this.#chat.stop();
  }

  get outline() {
    const shown = this.messages.map(
      ({ role, parts }) =>
        `${role} (${parts.map((part) => part.type + (part.state ? ` ${part.state}` : '')).join(', ')})`,
    );
    const errors = this.errors.map((error) => error.message);
    return (
      'the page shows ' +
      `${shown.join(', ') || 'nothing'}${errors.length > 0 ? `; errors: ${errors.join('; ')}` : ''}`
    );
  }

  /**
   * @param {string | URL} target
   * @param {RequestInit} init
   */
  #fetch(target, init) {
    const exchange = new Exchange(String(target), init);
    this.exchanges.push(exchange);
    return exchange.run();
  }
}
