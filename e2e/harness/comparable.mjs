// @ts-check
// What a page shows and what the server has stored, brought to where they have to be equal.

import { isToolPart } from './sdk.mjs';

/** @typedef {import('./page.mjs').Page} Page */
/** @typedef {import('./sdk.mjs').Message} Message */
/** @typedef {import('./sdk.mjs').Part} Part */

/**
 * Messages as JSON, without what a page cannot know: a client before version 7 is not told of a decision that
 * it did not make, and a page whose stream was ended for a newer message does not see how the parts of the
 * old one end. The record is in the shape of the newest client of a version; what an older one shows
 * otherwise is put into one shape. A message that says nothing is left out, because a page makes one of a
 * `start` that is followed by an error.
 *
 * @param {Message[]} messages the stored ones, or those of the page itself
 * @param {Page} page
 * @param {Set<string>} abandoned
 */
export function comparable(messages, page, abandoned) {
  const shownCalls = new Map(page.calls.map((part) => [part.toolCallId, part]));
  return messages
    .filter(({ parts }) => parts.some((part) => part.type !== 'step-start'))
    .map(({ id, role, parts, metadata }) => {
      const isAbandoned = abandoned.has(id);
      const known = parts
        .map((part) => (page.client.isOld ? inOneShape(part, shownCalls.get(part.toolCallId ?? '')) : part))
        .map((part) =>
          withoutOutcome(withoutDecision(part, shownCalls.get(part.toolCallId ?? '')), isAbandoned),
        );
      return /** @type {unknown} */ (
        JSON.parse(JSON.stringify({ id, role, parts: known, ...(isAbandoned ? {} : { metadata }) }))
      );
    });
}

/**
 * Older clients show no id of reasoning, a refused input in its raw form, and half an input without it.
 *
 * @param {Part} part
 * @param {Part | undefined} shown
 * @returns {Part}
 */
function inOneShape(part, shown) {
  if (part.type === 'reasoning') return { ...part, id: undefined };
  if (!isToolPart(part)) return part;
  if (shown?.input !== undefined) return { ...part, rawInput: undefined };
  return { ...part, input: undefined, rawInput: part.rawInput ?? part.input };
}

/**
 * @param {Part} part
 * @param {Part | undefined} shown
 * @returns {Part}
 */
function withoutDecision(part, shown) {
  if (part.approval === undefined || shown?.approval === undefined || shown.approval.approved !== undefined)
    return part;
  return { ...part, approval: { id: part.approval.id } };
}

/**
 * @param {Part} part
 * @param {boolean} isAbandoned
 * @returns {Part}
 */
function withoutOutcome(part, isAbandoned) {
  if (!isAbandoned) return part;
  if (!isToolPart(part)) return { ...part, state: undefined };
  const { type, toolCallId, input } = part;
  return { type, toolCallId, input };
}

/**
 * @param {unknown} value
 * @returns {unknown} the same with the keys of objects in order
 */
export function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([key, inner]) => [key, sorted(inner)]),
  );
}
