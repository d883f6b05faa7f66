// @ts-check
// Gives a client's answers by `/chat/tool-result`, and keeps which of all its answers were acknowledged.

import { decide } from './answers.mjs';
import { Refused } from './world.mjs';

/** @typedef {import('./answers.mjs').Answer} Answer */
/** @typedef {import('./caller.mjs').Caller} Caller */
/** @typedef {import('./view.mjs').Need} Need */
/** @typedef {import('../harness/clients.mjs').Version} Version */
/** @typedef {import('../harness/random.mjs').Random} Random */

export class Answering {
  /** @type {Map<string, Answer>} by kind and call */
  all = new Map();
  /** The faults in replies. */
  /** @type {string[]} */
  faults = [];
  /** `true` if it knows that the database has forgotten what it had confirmed. */
  #hasForgotten = false;
  /** Tools that need no asking any more. */
  #always = new Set();
  #chat;
  #version;
  #random;
  #caller;

  /**
   * @param {string} chat
   * @param {Version} version
   * @param {Random} random
   * @param {Caller} caller
   */
  constructor(chat, version, random, caller) {
    this.#chat = chat;
    this.#version = version;
    this.#random = random;
    this.#caller = caller;
  }

  /**
   * Returns the answer to a need; it is the same every time.
   *
   * @param {Need} need
   * @param {number} turn
   */
  to(need, turn) {
    if (this.#caller.hasLostCommits && !this.#hasForgotten) {
      this.#hasForgotten = true;
      for (const answer of this.all.values()) answer.acknowledged = false;
    }
    const name = `${need.kind} ${need.kind === 'elicitation' ? need.id : need.call}`;
    const answer = this.all.get(name) ?? decide(this.#random, need, turn);
    // The call that a question is put through changes where another one may have asked it.
    answer.need = need;
    if (this.#version === 5 && need.kind === 'approval' && answer.by === 'repost') answer.by = 'side';
    this.all.set(name, answer);
    return answer;
  }

  /**
   * Answers by the side endpoint, at times twice, at times otherwise the second time.
   *
   * @param {Answer[]} answers
   * @param {Random} random
   */
  async aside(answers, random) {
    const some = answers.filter((answer) => !this.mayBeRefused(answer));
    const together = some.length > 1 && random.chance(0.4);
    if (together) await this.sends({ answers: some.map(({ body }) => body) }, some);
    for (const answer of answers)
      if (!together || !some.includes(answer)) await this.sends(answer.body, [answer]);
    const [answer] = some;
    if (answer === undefined) return;
    if (random.chance(0.15)) await this.sends(answer.body, [answer]);
    if (random.chance(0.1)) await this.#contradicts(answer);
  }

  /**
   * @param {Record<string, unknown>} body
   * @param {Answer[]} answers in it
   */
  async sends(body, answers) {
    const request = { method: 'POST', path: '/chat/tool-result', body: { chatId: this.#chat, ...body } };
    const [answer] = answers;
    // What was refused was not done, so the page may answer something else.
    const mayChange =
      answer?.acknowledged === false &&
      answers.length === 1 &&
      answer?.need.kind === 'output' &&
      answer.body.output !== undefined;
    const givesUp = mayChange ? { givesUp: () => this.#random.chance(0.5) } : {};
    const sending = this.#caller.change({ ...request, ...givesUp }, ({ status, body: said }) => {
      for (const answer of answers) {
        if (status === 200) this.acknowledge(answer);
        else if (!this.mayBeRefused(answer))
          this.faults.push(`an answer to ${answer.need.key} was refused: ${status} ${JSON.stringify(said)}`);
        else answer.by = 'leave';
      }
    });
    await sending.catch((error) => {
      if (!(error instanceof Refused) || answer === undefined) throw error;
      answer.body = { ...answer.body, output: { said: `the page says ${answer.need.key}`, again: true } };
      return this.sends(answer.body, [answer]);
    });
  }

  /** @param {Answer} answer */
  acknowledge(answer) {
    answer.acknowledged = true;
    if (answer.body.always === true) this.#always.add(answer.need.tool);
  }

  /** Returns `true` if the question may not count any more. @param {Answer} answer */
  mayBeRefused({ need }) {
    return (
      need.kind === 'elicitation' || this.#always.has(need.tool) || (need.kind === 'approval' && !need.must)
    );
  }

  /** Another answer to what is answered changes nothing; but an approval can be taken back until its call begins. @param {Answer} answer */
  async #contradicts(answer) {
    const { need, body } = answer;
    const other =
      need.kind === 'output'
        ? { toolCallId: need.call, output: 'no' }
        : { toolCallId: need.call, approved: body.approved !== true, reason: String(body.reason) };
    const request = { method: 'POST', path: '/chat/tool-result', body: { chatId: this.#chat, ...other } };
    await this.#caller.change(request, ({ status, body: said }) => {
      const isTakenBack =
        body.approved === true && /** @type {any} */ (said)?.calls?.[0]?.state === 'cancelled';
      if (status === 200 && isTakenBack) answer.body = other;
      else if (status !== 409 && status !== 410)
        this.faults.push(`a second answer to ${need.key} was answered ${status}`);
    });
  }
}
