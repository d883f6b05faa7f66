// @ts-check
// The part of Slack's API that Fermata uses. It refuses what Slack would refuse, shows messages as a channel would, and sends clicks with
// Slack's signature.

import { createHmac } from 'node:crypto';
import { HttpService } from './http-service.mjs';

/** @typedef {import('./http-service.mjs').Answer} Answer */
/** @typedef {{ type: string, text?: { type: string, text: string }, elements?: Element[], [field: string]: unknown }} Block */
/** @typedef {{ type: string, text?: { text: string } | string, action_id?: string, value?: string, [field: string]: unknown }} Element */
/**
 * @typedef {object} Message
 * @property {string} ts
 * @property {string} text
 * @property {Block[]} blocks
 * @property {string} [thread] the message that it answers
 */
/** @typedef {{ user: string, text: string }} Whisper what one person alone sees */
/** @typedef {{ method: string, prefix: string, body: Record<string, any> }} ApiCall */
/** @typedef {'done' | 'fails' | 'done unanswered'} ApiAnswer */

const TOKEN = 'xoxb-never-show-this';
const SIGNING_SECRET = 'slack-signing-secret';
export const CHANNEL = 'C0123';

/** The limits of <https://docs.slack.dev/reference/block-kit/blocks>. */
const LIMITS = {
  blocks: 50,
  text: 3000,
  button: 75,
  value: 2000,
  actionId: 255,
  elements: { actions: 25, context: 10 },
};

export class SlackApi {
  /** @type {HttpService | undefined} */
  #service;
  /** The messages of the channel, oldest first, as they are now. */
  /** @type {Message[]} */
  messages = [];
  /** @type {Whisper[]} */
  whispers = [];
  /** The calls of the API that were taken. */
  /** @type {ApiCall[]} */
  calls = [];
  /** Calls that Slack would have refused, with its reasons. */
  /** @type {string[]} */
  faults = [];
  /** Chooses the answer to a correct call, which may be done although the answer is missing. */
  /** @type {(call: ApiCall) => ApiAnswer | Promise<ApiAnswer>} */
  answers = () => 'done';

  static async start() {
    const slack = new SlackApi();
    slack.#service = await HttpService.start((request) => slack.#take(request));
    return slack;
  }

  /**
   * Returns the settings of a channel, as lines of its table.
   *
   * @param {Record<string, string>} users the user of each account
   * @param {string} [prefix] of the path of all requests
   */
  settings(users, prefix = '') {
    const accounts = Object.entries(users).map(([account, user]) => `${account} = "${user}"`);
    return `kind = "slack"
private = true
base_url = "${this.#service?.url}${prefix}"
token = "${TOKEN}"
channel = "${CHANNEL}"
signing_secret = "${SIGNING_SECRET}"
users = { ${accounts.join(', ')} }`;
  }

  /** @param {Message} message @param {'Approve' | 'Deny'} label */
  button(message, label) {
    const button = buttonsOf(message).find(({ text }) => typeof text === 'object' && text.text === label);
    if (button === undefined) throw new Error(`no button ${label} in ${JSON.stringify(message)}`);
    return button;
  }

  /**
   * Sends a click to the server.
   *
   * @param {string} url of the channel at the server
   * @param {{ user: string, button: Element, message: Message }} click
   * @param {{ at?: Date, secret?: string }} [options] of the signature
   */
  async clicks(url, { user, button, message }, { at = new Date(), secret = SIGNING_SECRET } = {}) {
    const payload = {
      type: 'block_actions',
      user: { id: user },
      channel: { id: CHANNEL },
      message: { ts: message.ts },
      response_url: `${this.#service?.url}/actions/${user}`,
      actions: [{ type: 'button', action_id: button.action_id, value: button.value }],
    };
    const body = String(new URLSearchParams({ payload: JSON.stringify(payload) }));
    const seconds = String(Math.floor(at.getTime() / 1000));
    const signature = createHmac('sha256', secret).update(`v0:${seconds}:${body}`).digest('hex');
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        'x-slack-request-timestamp': seconds,
        'x-slack-signature': `v0=${signature}`,
      },
      body,
    });
    return { status: response.status, body: await response.text() };
  }

  async stop() {
    await this.#service?.stop();
  }

  /** @param {import('./http-service.mjs').HttpRequest} request @returns {Promise<Answer>} */
  async #take({ method, path, headers, body }) {
    const sent = /** @type {Record<string, any>} */ (JSON.parse(body.toString('utf8')));
    const [, account] = /^\/actions\/(\w+)$/.exec(path) ?? [];
    if (account !== undefined) {
      if (headers.authorization !== undefined) this.faults.push('the token was sent to a response_url');
      this.whispers.push({ user: account, text: String(sent.text) });
      return { status: 200, body: 'ok' };
    }
    const [, prefix = '', name] = /^(\/\w+)?\/api\/([\w.]+)$/.exec(path) ?? [];
    const call = { method: name ?? path, prefix, body: sent };
    const error = method === 'POST' && name !== undefined ? this.#errorOf(call, headers) : 'unknown_method';
    if (error !== undefined) {
      this.faults.push(`${call.method}: ${error}`);
      return replies({ ok: false, error });
    }
    const answer = await this.answers(call);
    if (answer === 'fails') return replies({ ok: false, error: 'internal_error' });
    this.calls.push(call);
    const ts = this.#does(call);
    return answer === 'done' ? replies({ ok: true, channel: CHANNEL, ts }) : 'hangs';
  }

  /** @param {ApiCall} call @returns {string} the message that it is about */
  #does({ method, body }) {
    const content = { text: String(body.text), blocks: /** @type {Block[]} */ (body.blocks ?? []) };
    if (method === 'chat.postEphemeral') {
      this.whispers.push({ user: body.user, text: content.text });
      return '';
    }
    if (method === 'chat.update') {
      Object.assign(this.messages.find(({ ts }) => ts === body.ts) ?? {}, content);
      return body.ts;
    }
    const ts = `1700000000.${String(this.messages.length + 1).padStart(6, '0')}`;
    this.messages.push({ ts, ...content, ...(body.thread_ts && { thread: body.thread_ts }) });
    return ts;
  }

  /**
   * Returns the error that Slack would answer with.
   *
   * @param {ApiCall} call
   * @param {Record<string, string>} headers
   * @returns {string | undefined}
   */
  #errorOf({ method, body }, headers) {
    if (!['chat.postMessage', 'chat.update', 'chat.postEphemeral'].includes(method)) return 'unknown_method';
    if (headers.authorization !== `Bearer ${TOKEN}`) return 'invalid_auth';
    if (!/^application\/json/.test(headers['content-type'] ?? '')) return 'invalid_json';
    if (body.channel !== CHANNEL) return 'channel_not_found';
    if (typeof body.text !== 'string' || body.text === '') return 'no_text';
    if (method === 'chat.update' && !this.messages.some(({ ts }) => ts === body.ts))
      return 'message_not_found';
    const faults = faultsOfBlocks(body.blocks ?? []);
    return faults.length > 0 ? `invalid_blocks: ${faults.join(', ')}` : undefined;
  }
}

/** @param {object} body @returns {Answer} */
const replies = (body) => ({ status: 200, body: JSON.stringify(body) });

/** @param {Message} message */
export const buttonsOf = ({ blocks }) =>
  blocks.flatMap(({ type, elements }) => (type === 'actions' ? (elements ?? []) : []));

/** @param {Block[]} blocks */
function faultsOfBlocks(blocks) {
  const faults = [];
  /** @param {string} what @param {unknown} text @param {number} most */
  const fits = (what, text, most) => {
    const length = typeof text === 'string' ? text.length : 0;
    if (length < 1 || length > most) faults.push(`${what} has ${length} characters`);
  };
  if (blocks.length > LIMITS.blocks) faults.push(`${blocks.length} blocks`);
  for (const { type, text, elements = [] } of blocks) {
    switch (type) {
      case 'section':
        fits('a section', text?.text, LIMITS.text);
        break;
      case 'context':
        if (elements.length < 1 || elements.length > LIMITS.elements.context)
          faults.push('a context without elements');
        for (const element of elements) fits('a context', element.text, LIMITS.text);
        break;
      case 'actions':
        if (elements.length < 1 || elements.length > LIMITS.elements.actions)
          faults.push('actions without elements');
        for (const { text, action_id, value } of elements) {
          fits('a button', typeof text === 'object' ? text.text : text, LIMITS.button);
          fits('a value', value, LIMITS.value);
          fits('an action_id', action_id, LIMITS.actionId);
        }
        if (new Set(elements.map(({ action_id }) => action_id)).size < elements.length)
          faults.push('two buttons have one action_id');
        break;
      default:
        faults.push(`a block of the type ${type}`);
    }
  }
  return faults;
}
