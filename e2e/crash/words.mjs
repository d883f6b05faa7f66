// @ts-check
// A model whose words are numbered and say which turn, step and attempt they are of, so that a page shows whether a word is lost, doubled or of
// another attempt.

import { SUMMARY_MODEL, chatOf, mark } from './model.mjs';

/** @typedef {import('../harness/fake-openai.mjs').ModelRequest} ModelRequest */
/** @typedef {import('../harness/fake-openai.mjs').Pen} Pen */
/** @typedef {import('../harness/sdk.mjs').Message} Message */
/** @typedef {'plain' | 'asks' | 'page' | 'long'} Kind of turn: words only, a call that a person approves, one that the page runs, many words */

/** @type {Kind[]} */
export const KINDS_OF_TURN = ['plain', 'asks', 'page', 'long'];

/** The number of words of each step. */
const WORDS = { plain: [60], asks: [20, 40], page: [20, 40], long: [240] };
/** @param {string} chat @param {number} turn @param {Kind} kind */
export const says = (chat, turn, kind) => `${mark(chat, turn)} ${kind}`;

/** The title of the note that a turn writes, and the key of the call that its page runs. @param {string} chat @param {number} turn */
export const keyOf = (chat, turn) => `${chat}.t${turn}`;

export class NumberingModel {
  /** The number of requests for each step. */
  /** @type {Map<string, number>} by turn and step */
  asked = new Map();
  /** Turns whose last word was said. */
  /** @type {Set<string>} */
  finished = new Set();

  /** @param {number} [pause] between two words, in milliseconds */
  constructor(pause = 20) {
    this.pause = pause;
  }

  /** The number of repeated requests for a step. */
  get repeated() {
    return [...this.asked.values()].reduce((sum, times) => sum + times - 1, 0);
  }

  /**
   * @param {ModelRequest} request
   * @returns {(pen: Pen) => Promise<void>}
   */
  reply = (request) => {
    if (request.model === SUMMARY_MODEL) return async (pen) => pen.says('No.');
    const begin = request.messages.findLastIndex(({ role }) => role === 'user');
    const [, number = '0', kind = 'plain'] =
      / t(\d+)] (\w+)/.exec(request.words.findLast((words) => words.startsWith('user: ')) ?? '') ?? [];
    const [chat, turn, words] = [chatOf(request), Number(number), WORDS[/** @type {Kind} */ (kind)]];
    const step = request.messages.slice(begin).filter(({ role }) => role === 'assistant').length;
    const key = keyOf(chat, turn);
    const name = `${key}.s${step}`;
    const attempt = this.asked.get(name) ?? 0;
    this.asked.set(name, attempt + 1);
    return async (pen) => {
      let isGone = false;
      void pen.gone.then(() => {
        isGone = true;
      });
      for (let word = 0; word < (words[step] ?? 0) && !isGone; word += 1) {
        pen.says(`${key}.s${step}.a${attempt}.w${word} `);
        await new Promise((resolve) => setTimeout(resolve, this.pause));
      }
      if (isGone) return;
      if (step === 0 && kind === 'asks')
        pen.calls({ name: 'write_note', input: { title: key, body: 'whatever' }, id: `call_${name}` });
      else if (step === 0 && kind === 'page')
        pen.calls({ name: 'get_location', input: { key }, id: `call_${name}` });
      else this.finished.add(key);
    };
  };
}

/**
 * Returns the faults in the words of an answer: those of each step have to be of one attempt, in order, each once.
 *
 * @param {Message} message
 * @param {string} key of the turn
 * @param {Kind} [whole] the kind of the turn, if all its words have to be there
 * @returns {string | undefined}
 */
export function faultOfWords({ parts }, key, whole) {
  const words = parts.flatMap(({ type, text }) =>
    type === 'text' ? (text ?? '').split(' ').filter(Boolean) : [],
  );
  const read = words.map((word) => /^(.*)\.s(\d+)\.a(\d+)\.w(\d+)$/.exec(word));
  let last = { step: -1, attempt: 0, word: -1 };
  const counts = [];
  for (const [place, match] of read.entries()) {
    const [, turn, step, attempt, word] = match ?? [];
    const next = { step: Number(step), attempt: Number(attempt), word: Number(word) };
    const isFirst = next.step === last.step + 1 && next.word === 0;
    const follows = next.step === last.step && next.attempt === last.attempt && next.word === last.word + 1;
    if (turn !== key || !(isFirst || follows))
      return `after ${place} words of ${key}: ${words.slice(Math.max(0, place - 2), place + 2).join(' ')}`;
    counts[next.step] = next.word + 1;
    last = next;
  }
  if (whole !== undefined && String(counts) !== String(WORDS[whole]))
    return `${key} has ${counts} words instead of ${WORDS[whole]}`;
  return undefined;
}
