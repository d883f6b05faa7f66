// @ts-check
// What must hold once everything was killed, started again and settled: nothing promised is lost, nothing was
// done twice. If the database itself has forgotten what it had confirmed, promises go with it, and a call may have
// run twice; what is left must fit together all the same.

import { isDeepStrictEqual } from 'node:util';
import { chatOf, keyOf, summarized } from './model.mjs';

/** @typedef {import('./talker.mjs').Talker} Talker */
/** @typedef {import('./world.mjs').CrashWorld} CrashWorld */
/** @typedef {import('./answers.mjs').Answer} Answer */
/** @typedef {import('../harness/page.mjs').Message} Message */
/** @typedef {import('../harness/page.mjs').Part} Part */

/** A repeatable call runs once and is repeated twice at most. */
const RUNS = { once: 1, again: 3, book: 3 };
const SETTLED = ['output-available', 'output-error', 'output-denied'];

/** @param {CrashWorld} world @returns {string[]} what is wrong with what the tools have left behind */
export function faultsOfEffects({ journal, booked, hasLostCommits, isMixed }) {
  const faults = [];
  const again = hasLostCommits ? 1 : 0;
  for (const event of /** @type {const} */ (['once', 'again', 'book'])) {
    const runs = counted(journal.filter((line) => line.event === event).map(({ about }) => about));
    for (const [key, times] of runs)
      if (times > RUNS[event] + again) faults.push(`${key} (${event}) ran ${times} times`);
  }
  if (isMixed) return faults;
  for (const [key, times] of counted(booked))
    if (times > 1 + again) faults.push(`${key} had its effect ${times} times`);
  return faults;
}

/**
 * @template T
 * @param {T[]} things
 * @returns {Map<T, number>} how often each is among them
 */
function counted(things) {
  /** @type {Map<T, number>} */
  const counts = new Map();
  for (const thing of things) counts.set(thing, (counts.get(thing) ?? 0) + 1);
  return counts;
}

/** A call of a run that is over is settled. */
const UNSETTLED = `
  select calls.chat_id, calls.id, calls.state
  from tool_calls calls join runs on runs.chat_id = calls.chat_id and runs.id = calls.run_id
  where runs.outcome is not null and calls.state not in ('success', 'error', 'cancelled')`;

/** @param {CrashWorld} world @returns {Promise<string[]>} what is wrong with the rows of the database */
export async function faultsOfRows({ postgres }) {
  const rows = (await postgres?.rows(UNSETTLED)) ?? [];
  return rows.map((row) => `${row.chat_id}: the run of ${row.id} is over, and the call is ${row.state}`);
}

/**
 * @param {Talker} talker
 * @returns {Promise<string[]>} what is wrong with a chat after its last turn
 */
export async function faultsOfChat(talker) {
  const { messages, pending, open } = await talker.record;
  const faults = [];
  if (open || pending.length > 0) faults.push('it is open after its last turn');
  const parts = new Map(
    messages
      .flatMap(({ parts }) => parts)
      .flatMap((part) => (part.toolCallId ? [[part.toolCallId, part]] : [])),
  );
  for (const [id, { state, type }] of parts)
    if (!SETTLED.includes(state ?? '')) faults.push(`${type} ${id} is ${state}`);
  if (talker.world.hasLostCommits) return faults.map((fault) => `${talker.chat}: ${fault}`);
  faults.push(...talker.faults, ...talker.answering.faults);
  const said = messages.filter(({ role }) => role === 'user').map(({ id }) => id);
  if (!isDeepStrictEqual(said, [...new Set(talker.said)]))
    faults.push(`the record has ${said}, said was ${talker.said}`);
  for (const [call, turn] of talker.questions) {
    if (!parts.has(call) && !talker.remade.has(turn))
      faults.push(`call ${call} was asked about in turn ${turn}, and is gone`);
  }
  for (const answer of talker.answering.all.values())
    faults.push(...faultsOfAnswer(talker, answer, parts.get(answer.need.call)));
  faults.push(...faultsOfShown(talker, messages), ...faultsOfHistory(talker), ...faultsOfRuns(talker, parts));
  return faults.map((fault) => `${talker.chat}: ${fault}`);
}

/**
 * @param {Talker} talker
 * @param {Answer} answer
 * @param {Part | undefined} part
 * @returns {string[]}
 */
function faultsOfAnswer({ remade, cutShort }, { need, body, turn, acknowledged }, part) {
  if (!acknowledged || need.kind === 'elicitation') return [];
  const name = `the answer to ${need.key} (${need.kind})`;
  if (part === undefined) return remade.has(turn) ? [] : [`${name} is lost with its call`];
  const is = `${part.state} ${JSON.stringify(part.output ?? part.errorText)}`;
  if (need.kind === 'output') {
    const isKept =
      body.errorText === undefined
        ? isDeepStrictEqual(part.output, body.output)
        : part.errorText === body.errorText;
    return isKept ? [] : [`${name} is lost: ${is}`];
  }
  if (body.approved === false) return part.state === 'output-available' ? [`${name} was no, and it ran`] : [];
  const wasDenied = part.state === 'output-denied' || /because of/.test(part.errorText ?? '');
  if (wasDenied && !cutShort.has(turn)) return [`${name} was yes: ${is}`];
  const edited = /** @type {{ body?: string } | undefined} */ (body.input)?.body;
  const input = /** @type {{ body?: string } | undefined} */ (part.input)?.body;
  return edited !== undefined && edited !== input && !cutShort.has(turn)
    ? [`${name} was an edit: ${JSON.stringify(part.input)}`]
    : [];
}

/**
 * The store has the message that a client showed at the end of a run.
 *
 * @param {Talker} talker
 * @param {Message[]} messages
 */
function faultsOfShown({ shown, remade }, messages) {
  const faults = [];
  for (const [turn, message] of shown) {
    const stored = messages.find(({ id }) => id === message.id);
    if (stored === undefined) {
      if (!remade.has(turn))
        faults.push(`message ${message.id} of turn ${turn} was shown to its end, and is gone`);
    } else if (!isDeepStrictEqual(gist(message), gist(stored))) {
      faults.push(
        `turn ${turn} was shown as\n${gist(message).join('\n')}\nand is stored as\n${gist(stored).join('\n')}`,
      );
    }
  }
  return faults;
}

/** @param {Message} message */
const gist = ({ parts }) =>
  parts.flatMap((part) => {
    if (part.type === 'text' || part.type === 'reasoning') return [`${part.type} ${part.text}`];
    if (part.toolCallId)
      return [
        `${part.toolCallId} ${part.state} ${JSON.stringify([part.input, part.output, part.errorText])}`,
      ];
    return part.type === 'step-start' ? [part.type] : [];
  });

/**
 * The last results that the model received: every answer that counts, by the key of its call.
 *
 * @param {Talker} talker
 */
function faultsOfHistory({ world, chat, answering, remade, turn }) {
  // The request of a run that was superseded at once may reach the model after that of the next one.
  const isLast = (/** @type {string} */ words) => words.includes(` t${turn} last]`);
  const request = world.asked.findLast((request) => chatOf(request) === chat && request.words.some(isLast));
  const faults = [];
  if (request === undefined) faults.push('the model was not asked for the last turn');
  for (const { need, body, turn, acknowledged } of answering.all.values()) {
    if (request !== undefined && turn <= summarized(request)) continue;
    // What has no key cannot be found again; it needed no asking.
    if (!acknowledged || need.kind === 'elicitation' || need.key === need.call || remade.has(turn)) continue;
    const call = request?.calls.find(({ input }) => keyOf(input) === need.key);
    const told = request?.messages.find((message) => call !== undefined && message.tool_call_id === call.id);
    const result = JSON.stringify(told?.content ?? null);
    if (call === undefined) faults.push(`the model is not told of ${need.key}`);
    else if (need.kind === 'output' && !result.includes(`the page says ${need.key}`))
      faults.push(`the model is told of ${need.key}: ${result}`);
    else if (body.approved === false && !result.includes(`because of ${need.key}`))
      faults.push(`the model is told of ${need.key}: ${result}`);
  }
  return faults;
}

/**
 * Reported runs of tools have happened, and denied ones have not.
 *
 * @param {Talker} talker
 * @param {Map<string, Part>} parts
 */
function faultsOfRuns({ world }, parts) {
  const ran = new Set(world.journal.flatMap(({ event, about }) => (event in RUNS ? [about] : [])));
  const booked = new Set(world.booked);
  return [...parts.values()].flatMap((part) => {
    const key = keyOf(part.input);
    if (!/once|again|book/.test(part.toolName ?? '') || key === undefined) return [];
    const hasRun = part.toolName === 'hand__book' && !world.isMixed ? booked.has(key) : ran.has(key);
    if (part.state === 'output-available' && !hasRun) return [`${key} is said to have run, and has not`];
    return part.state === 'output-denied' && ran.has(key) ? [`${key} was denied, and ran`] : [];
  });
}
