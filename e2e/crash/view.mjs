// @ts-check
// What a client has been sent of one message: the chunks, put together by the AI SDK's own code, and what
// they ask of somebody.

import { messageOf } from '../harness/message.mjs';
import { keyOf } from './model.mjs';

/** @typedef {import('../harness/events.mjs').Chunk} Chunk */
/** @typedef {import('../harness/clients.mjs').Version} Version */
/** @typedef {import('../harness/page.mjs').Message} Message */
/** @typedef {'approval' | 'output' | 'elicitation'} Kind */
/**
 * @typedef {object} Need
 * @property {Kind} kind
 * @property {string} id what the answer names
 * @property {boolean} must whether it has to be answered: a stream that is let go also asks about calls that need
 * no answer
 * @property {string} call
 * @property {string} tool
 * @property {string} key
 */
/**
 * @typedef {object} Call
 * @property {string} tool
 * @property {string} text its input so far
 * @property {boolean} offered whether its input is complete, so that a page runs it
 * @property {boolean} settled
 * @property {string} [asked] the question about it
 */

/** Tools that a page runs, in the form that the AI SDK posts them. */
export const BROWSER_TOOLS = {
  get_location: {
    description: 'Tells where the browser is.',
    parameters: { type: 'object', properties: { key: { type: 'string' } } },
  },
  pick_color: {
    description: 'Lets the person pick a colour.',
    parameters: { type: 'object', properties: { key: { type: 'string' } } },
  },
};

export class View {
  /** @type {Chunk[]} */
  chunks = [];
  /** @type {Map<string, Call>} */
  #calls = new Map();
  /** @type {Map<string, { call: string, state: string }>} */
  #elicitations = new Map();

  /** `true` if the message has been shown to its end. */
  get finished() {
    return this.chunks.at(-1)?.type === 'finish';
  }

  /** @param {Chunk} chunk */
  apply(chunk) {
    this.chunks.push(chunk);
    const id = String(chunk.toolCallId ?? '');
    const call = this.#calls.get(id);
    switch (chunk.type) {
      case 'tool-input-start':
        this.#calls.set(id, { tool: String(chunk.toolName), text: '', offered: false, settled: false });
        break;
      case 'tool-input-delta':
        if (call) call.text += chunk.inputTextDelta;
        break;
      case 'tool-input-available':
        this.#calls.set(id, {
          settled: false,
          ...call,
          tool: String(chunk.toolName),
          text: JSON.stringify(chunk.input),
          offered: true,
        });
        break;
      case 'tool-approval-request':
        if (call) call.asked = String(chunk.approvalId);
        break;
      case 'data-tool-approval':
        this.#question(/** @type {{ approvalId: string, toolCallId: string }} */ (chunk.data));
        break;
      case 'tool-output-available':
        if (call && chunk.preliminary !== true) call.settled = true;
        break;
      case 'tool-output-error':
      case 'tool-output-denied':
      case 'tool-input-error':
        if (call) call.settled = true;
        break;
      case 'data-elicitation':
        this.#elicitation(
          /** @type {{ elicitationId: string, toolCallId: string, state: string }} */ (chunk.data),
        );
        break;
      // What was shown of the step is withdrawn; its calls never were.
      case 'reset-step':
        this.#forgetStep();
        break;
    }
  }

  /** All that waits for somebody, as far as the client can tell; what it has answered is not known here. */
  get needs() {
    /** @type {Need[]} */
    const needs = [];
    for (const [call, { tool, text, offered, settled, asked }] of this.#calls) {
      if (settled) continue;
      const input = inputIn(text);
      const about = { call, tool, key: keyOf(input) ?? call, must: mustBeAsked(tool, input) };
      // A page's call is offered once it is decided.
      const isForPage = offered && tool in BROWSER_TOOLS;
      if (asked !== undefined && !isForPage) needs.push({ ...about, kind: 'approval', id: asked });
      if (isForPage) needs.push({ ...about, kind: 'output', id: call });
    }
    for (const [id, { call, state }] of this.#elicitations) {
      if (state === 'pending')
        needs.push({ kind: 'elicitation', id, call, tool: 'hand__ask', key: call, must: true });
    }
    return needs;
  }

  /**
   * The message as a client of this version shows it.
   *
   * @param {Version} version
   * @returns {Promise<Message>}
   */
  async message(version) {
    return messageOf(this.chunks, version);
  }

  /** @param {{ approvalId: string, toolCallId: string }} question */
  #question({ approvalId, toolCallId }) {
    const call = this.#calls.get(toolCallId);
    if (call) call.asked = approvalId;
  }

  /** @param {{ elicitationId: string, toolCallId: string, state: string }} elicitation */
  #elicitation({ elicitationId, toolCallId, state }) {
    this.#elicitations.set(elicitationId, { call: toolCallId, state });
  }

  #forgetStep() {
    const start = this.chunks.findLastIndex(({ type }) => type === 'start-step');
    for (const { toolCallId } of this.chunks.slice(start)) this.#calls.delete(String(toolCallId));
  }
}

/** @param {string} text @returns {unknown} */
function inputIn(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Returns `true` if the rules of the world have a call asked about.
 *
 * @param {string} tool
 * @param {unknown} input
 */
export function mustBeAsked(tool, input) {
  const { ask } = /** @type {{ ask?: unknown }} */ (input ?? {});
  return tool === 'write_note' || tool === 'pick_color' || ask === 'yes';
}
