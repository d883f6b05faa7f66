// @ts-check
// A model that acts at random, by its seed. Its actions in a step follow from the chat, the turn, the
// step and how often it was asked for that step before. It knows the shape of a history, no matter what was
// killed meanwhile.

/** @typedef {import('../harness/fake-openai.mjs').ModelRequest} ModelRequest */
/** @typedef {import('../harness/fake-openai.mjs').Pen} Pen */
/** @typedef {import('../harness/fake-openai.mjs').Call} Call */
/** @typedef {import('../harness/random.mjs').Random} Random */

/** The mark of a user message's place. */
const MARK = /\[(\S+) t(\d+)( last)?]/;
/** The mark of the turns that a summary covers. */
const SUMMARIZED = /after (\d+) turns/;
/** The name of the model that writes summaries. */
export const SUMMARY_MODEL = 'summary-model';
/** The duration of such a call, in milliseconds. */
const LONG_CALL = 2_500;
/** After so many steps of a turn there are words only. */
const STEPS = 3;

/**
 * @param {string} chat @param {number} turn @param {boolean} [last] whether the model is to answer without
 * tools
 */
export const mark = (chat, turn, last = false) => `[${chat} t${turn}${last ? ' last' : ''}]`;

/** @param {number} most milliseconds */
const pause = (most) => new Promise((resolve) => setTimeout(resolve, most));

/**
 * The turns, from the first on, that a summary stands for.
 *
 * @param {ModelRequest} request
 */
export const summarized = (request) => Number(SUMMARIZED.exec(JSON.stringify(request.messages[0]))?.[1] ?? 0);

/** @param {ModelRequest} request */
export const chatOf = (request) => MARK.exec(request.words.join('\n'))?.[1] ?? '';

/**
 * Returns the text of a call's input that names it among all calls.
 *
 * @param {unknown} input
 */
export function keyOf(input) {
  const { key, title, query } = /** @type {Record<string, unknown>} */ (input ?? {});
  const found = key ?? title ?? query;
  return typeof found === 'string' ? found : undefined;
}

export class RandomModel {
  #random;
  #happens;
  /** The number of requests for each step. */
  /** @type {Map<string, number>} */
  #attempts = new Map();
  /** From now on it uses no tools. */
  calm = false;
  /** `true` if some tools take so long that a standby may be promoted meanwhile. */
  hasLongCalls = false;
  /** The faults in histories. */
  /** @type {string[]} */
  faults = [];

  /**
   * @param {Random} random
   * @param {(event: string) => void} happens told of each request and each piece of a reply
   */
  constructor(random, happens) {
    this.#random = random;
    this.#happens = happens;
  }

  /**
   * @param {ModelRequest} request
   * @returns {(pen: Pen) => Promise<void>}
   */
  reply = (request) => {
    if (request.model === SUMMARY_MODEL) return this.#summarizes(request);
    this.#happens('the model was asked');
    const turns = request.words
      .filter((words) => words.startsWith('user: '))
      .map((words) => MARK.exec(words) ?? []);
    const numbers = turns.map(([, , turn]) => Number(turn));
    const before = summarized(request);
    if (numbers.some((turn, place) => turn !== before + place + 1))
      this.faults.push(`the turns that the model was told after ${before}: ${numbers}`);
    const [, chat = '?', turn = '?', last] = turns.at(-1) ?? [];
    const begin = request.messages.findLastIndex(({ role }) => role === 'user');
    const step = request.messages.slice(begin).filter(({ role }) => role === 'assistant').length;
    const name = `${chat}.t${turn}.s${step}`;
    const attempt = this.#attempts.get(name) ?? 0;
    this.#attempts.set(name, attempt + 1);
    const random = this.#random.fork(name, attempt);
    const isLast = last !== undefined || this.calm || step >= STEPS || random.chance(0.2);
    return (pen) => this.#speak(pen, random, `${name}.a${attempt}`, isLast);
  };

  /**
   * Says which turns a summary covers, gives none, or breaks off.
   *
   * @param {ModelRequest} request
   * @returns {(pen: Pen) => Promise<void>}
   */
  #summarizes(request) {
    this.#happens('a summary was asked for');
    const words = request.words.join('\n');
    const before = Number(SUMMARIZED.exec(words)?.[1] ?? 0);
    const chat = MARK.exec(words)?.[1] ?? '?';
    const turns = [...words.matchAll(new RegExp(MARK, 'g'))].map(([, , turn]) => Number(turn));
    if (turns.some((turn, place) => turn !== before + place + 1))
      this.faults.push(`the turns to summarize after ${before}: ${turns}`);
    const name = `${chat}.summary${before}`;
    const attempt = this.#attempts.get(name) ?? 0;
    this.#attempts.set(name, attempt + 1);
    const random = this.#random.fork(name, attempt);
    return async (pen) => {
      await pause(random.below(30));
      this.#happens('a summary was written');
      if (random.chance(0.1)) return pen.breaksOff();
      if (random.chance(0.1)) return pen.says('No.');
      pen.says(JSON.stringify({ goal: `after ${turns.at(-1)} turns` }));
    };
  }

  /**
   * @param {Pen} pen
   * @param {Random} random
   * @param {string} name
   * @param {boolean} isLast
   */
  async #speak(pen, random, name, isLast) {
    const wait = async () => {
      this.#happens('the model said something');
      await pause(random.below(8));
    };
    await wait();
    if (random.chance(0.3)) {
      pen.reasons('Hm, ');
      await wait();
      pen.reasons(`${name}. `);
    }
    if (isLast || random.chance(0.5)) {
      for (let piece = 0; piece <= random.below(5); piece += 1) {
        pen.says(`${name} says ${piece}. `);
        await wait();
      }
    }
    if (isLast) return pen.says(`That was ${name}.`);
    for (let place = 0; place <= random.below(4); place += 1) {
      pen.calls(someCall(random, `${name}.${place}`, this.hasLongCalls));
      await wait();
    }
  }
}

/**
 * @param {Random} random
 * @param {string} key
 * @param {boolean} mayBeLong
 * @returns {Call}
 */
function someCall(random, key, mayBeLong) {
  const id = `call_${key}`;
  const takes = mayBeLong && random.chance(0.15) ? LONG_CALL : random.below(60);
  const ask = random.chance(0.3) ? 'yes' : 'no';
  /** @type {(() => Call)[]} */
  const kinds = [
    () => ({ name: 'write_note', input: { title: key, body: 'whatever' }, id }),
    () => ({ name: 'search_notes', input: { query: key }, id }),
    () => ({ name: 'current_time', input: {}, id }),
    () => ({ name: 'get_location', input: { key }, id }),
    () => ({ name: 'pick_color', input: { key }, id }),
    () => ({ name: 'hand__once', input: { key, takes, ask }, id }),
    () => ({ name: 'hand__again', input: { key, takes, ask }, id }),
    () => ({ name: 'hand__book', input: { key, takes, ask }, id }),
    () => ({ name: 'hand__alone', input: { key, takes }, id }),
    () => ({ name: 'hand__ask', input: { key }, id }),
  ];
  return random.pick(kinds)();
}
