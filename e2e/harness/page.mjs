// @ts-check
// A browser page with a chat in it: the AI SDK's own AbstractChat over its own DefaultChatTransport, with the messages
// kept in memory where React or Vue would keep them. Only `fetch` is wrapped, to count the requests and to cut one.

import { createRequire } from 'node:module';
import { Exchange } from './exchange.mjs';
import { until } from './until.mjs';

/** @typedef {5 | 6 | 7} Version */
/** @typedef {'never' | 'outputs' | 'approvals'} Sends which helper is given as `sendAutomaticallyWhen` */
/** @typedef {{ id: string, approved?: boolean, reason?: string }} Approval */
/**
 * @typedef {object} Part
 * @property {string} type
 * @property {string} [state]
 * @property {string} [text]
 * @property {string} [toolCallId]
 * @property {string} [toolName]
 * @property {unknown} [input]
 * @property {unknown} [output]
 * @property {boolean} [preliminary]
 * @property {string} [errorText]
 * @property {Approval} [approval]
 * @property {unknown} [data]
 */
/** @typedef {Part & { toolCallId: string, state: string }} ToolPart */
/** @typedef {{ id: string, role: string, parts: Part[], metadata?: unknown }} Message */

/**
 * What a page uses of a chat; the packages' own types differ from version to version.
 *
 * @typedef {object} Chat
 * @property {string} status
 * @property {Message[]} messages
 * @property {(message: { text: string }) => Promise<void>} sendMessage
 * @property {() => Promise<void>} regenerate
 * @property {() => Promise<void>} resumeStream
 * @property {() => Promise<void>} stop
 * @property {(output: { tool: string, toolCallId: string, output?: unknown, state?: string, errorText?: string }) => Promise<void>} addToolOutput
 * @property {(response: { id: string, approved: boolean, reason?: string }) => Promise<void>} [addToolApprovalResponse]
 */
/** @typedef {(last: { messages: Message[] }) => boolean} Decides */
/**
 * @typedef {object} Sdk
 * @property {new (init: object) => Chat} AbstractChat
 * @property {new (init: object) => object} DefaultChatTransport
 * @property {Decides} lastAssistantMessageIsCompleteWithToolCalls
 * @property {Decides} [lastAssistantMessageIsCompleteWithApprovalResponses]
 */

/** @type {Version[]} */
export const VERSIONS = [5, 6, 7];

/** @param {Version} version */
export const packageVersion = (version) =>
  String(createRequire(import.meta.url)(`../node_modules/ai-${version}/package.json`).version);

/**
 * @param {Version} version
 * @returns {Promise<Sdk>}
 */
const load = async (version) => /** @type {Promise<Sdk>} */ (import(`ai-${version}`));

/** The state that a user interface would render. */
class Rendered {
  status = 'ready';
  /** @type {Error | undefined} */
  error = undefined;

  /** @param {Message[]} messages */
  constructor(messages) {
    this.messages = messages;
  }

  /** @param {Message} message */
  pushMessage = (message) => {
    this.messages = [...this.messages, structuredClone(message)];
  };

  popMessage = () => {
    this.messages = this.messages.slice(0, -1);
  };

  /**
   * @param {number} index
   * @param {Message} message
   */
  replaceMessage = (index, message) => {
    this.messages = this.messages.with(index, structuredClone(message));
  };

  /** @type {<T>(thing: T) => T} */
  snapshot = (thing) => structuredClone(thing);
}

/**
 * @typedef {object} PageOptions
 * @property {Record<string, object>} [tools] browser tools, as they are posted
 * @property {Sends} [sends]
 * @property {string} [hold]
 */

export class Page {
  /** @type {Exchange[]} */
  exchanges = [];
  /** @type {Error[]} */
  errors = [];
  /** The names of the tools that `onToolCall` was called for. */
  /** @type {string[]} */
  toolCalls = [];
  #chat;
  #state;

  /**
   * @param {Sdk} sdk
   * @param {Version} version
   * @param {string} url of the server
   * @param {string} id of the chat
   * @param {PageOptions} options
   */
  constructor(sdk, version, url, id, { tools, sends = 'never', hold }) {
    this.version = version;
    this.url = url;
    this.id = id;
    this.#state = new Rendered([]);
    const StockChat = class extends sdk.AbstractChat {};
    const decides = {
      never: undefined,
      outputs: sdk.lastAssistantMessageIsCompleteWithToolCalls,
      approvals: sdk.lastAssistantMessageIsCompleteWithApprovalResponses,
    };
    this.#chat = new StockChat({
      id,
      state: this.#state,
      sendAutomaticallyWhen: decides[sends],
      onError: (/** @type {Error} */ error) => this.errors.push(error),
      onToolCall: (/** @type {{ toolCall: { toolName: string } }} */ { toolCall }) => {
        this.toolCalls.push(toolCall.toolName);
      },
      transport: new sdk.DefaultChatTransport({
        api: `${url}/api/chat`,
        body: { ...(tools ? { tools } : {}), fermata: { client: version, ...(hold ? { hold } : {}) } },
        fetch: (/** @type {string | URL} */ target, /** @type {RequestInit} */ init = {}) => this.#fetch(target, init),
      }),
    });
  }

  /**
   * @param {Version} version
   * @param {string} url
   * @param {string} id
   * @param {PageOptions} options
   */
  static async open(version, url, id, options = {}) {
    return new Page(await load(version), version, url, id, options);
  }

  get messages() {
    return this.#chat.messages;
  }

  get status() {
    return this.#chat.status;
  }

  /** The posts to the chat: the first request, and whatever the client sent by itself. */
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

  /** @param {string} words of a new user message */
  say(words) {
    void this.#chat.sendMessage({ text: words });
  }

  /** Has the last answer made again. */
  regenerate() {
    void this.#chat.regenerate();
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
    const question = await until(() => this.#questionAsData(tool), () => `a question about ${tool}; ${this.outline}`);
    const part = await this.shows(tool, 'input-available');
    return { approvalId: question.approvalId, toolCallId: question.toolCallId, input: part.input };
  }

  /**
   * Version 5 has no question of its own: it comes as a data part.
   *
   * @param {string} tool
   */
  #questionAsData(tool) {
    return this.messages
      .flatMap((message) => message.parts)
      .filter((part) => part.type === 'data-tool-approval')
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
    await until(() => this.messages.length > 0 && this.words.includes(words), () => `"${words}"; ${this.outline}`);
  }

  /**
   * Waits until the client is done and has had the chance to post again by itself: its decision needs no I/O, so one
   * turn of the event loop after the last response is enough.
   */
  async settles() {
    const isDone = () =>
      (this.status === 'ready' || this.status === 'error') && this.exchanges.every((exchange) => exchange.ended);
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

  /** Follows the message being written, which a loaded chat lacks; where there is none, the run is over meanwhile. */
  async follow() {
    await this.#chat.resumeStream();
    if (this.exchanges.at(-1)?.status === 204) await this.load();
  }

  /** What a page does when it is opened. */
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
      ({ role, parts }) => `${role} (${parts.map((part) => part.type + (part.state ? ` ${part.state}` : '')).join(', ')})`,
    );
    const errors = this.errors.map((error) => error.message);
    return `the page shows ${shown.join(', ') || 'nothing'}${errors.length > 0 ? `; errors: ${errors.join('; ')}` : ''}`;
  }

  /**
   * @param {string | URL} target
   * @param {RequestInit} init
   */
  #fetch(target, init) {
    const exchange = new Exchange(init.method ?? 'GET', String(target));
    this.exchanges.push(exchange);
    return exchange.run(init);
  }
}

/**
 * @param {Part} part
 * @returns {part is ToolPart}
 */
export const isToolPart = (part) => part.toolCallId !== undefined && part.state !== undefined;

/** @param {Part} part */
export const nameOf = (part) => part.toolName ?? part.type.slice('tool-'.length);
