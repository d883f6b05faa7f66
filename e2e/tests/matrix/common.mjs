// @ts-check
// What the runs of the matrix have in common: the calls that the model makes, and pages that post again by
// themselves whenever one of the AI SDK's helpers decides it, which makes them the ones that do most of what
// nobody asked for.

import assert from 'node:assert/strict';
import { BROWSER_TOOLS } from '../../harness/scenario.mjs';

/** @typedef {import('../../harness/scenario.mjs').World} World */
/** @typedef {import('../../harness/page.mjs').Page} Page */

export const locate = { name: 'get_location', input: { accuracy: 'high' } };
export const pick = { name: 'pick_color', input: { palette: 'warm' } };
export const time = { name: 'current_time', input: { timezone: 'Europe/Zurich' } };
export const write = (title = 'shopping') => ({ name: 'write_note', input: { title, body: 'milk' } });

/** The smallest PNG. */
export const DOT =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';

/** The request for messages that version 5 has no words for. */
export const BY_REQUEST = '`POST /chat/tool-result`';

/**
 * @param {World} world
 * @param {import('../../harness/page.mjs').PageOptions} [options]
 */
export const opens = async (world, options) =>
  world.page({ tools: BROWSER_TOOLS, sends: 'either', ...options });

/** @param {Page} page */
export const typesOf = (page) => page.reply.parts.map(({ type }) => type);

/** @param {Page} page */
export const statesOf = (page) => page.calls.map(({ state }) => state);

/**
 * The page is done and shows these words at the end.
 *
 * @param {Page} page
 * @param {string} words
 */
export async function ends(page, words) {
  await page.settles();
  assert.equal(page.words, words);
}
