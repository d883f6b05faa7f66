// @ts-check
// A few rounds of what `npm run soak` does for as long as it is told. A failure names the seed that `npm run
// soak` takes.

import { describe, test } from 'node:test';
import { KINDS } from '../crash/kinds.mjs';
import { round } from '../crash/round.mjs';

const ROUNDS = 3;
/** Rounds in which stores fail take longer, because what is away comes back after a while. */
const ROUNDS_WITH_FAULTS = 2;
const first = Number(process.env.SEED ?? Date.now() % 1_000_000);

describe('whatever fails, nothing promised is lost and nothing is done twice', { concurrency: 2 }, () => {
  for (const [name, { missing, within }] of Object.entries(KINDS)) {
    const rounds = name.endsWith('-faults') ? ROUNDS_WITH_FAULTS : ROUNDS;
    for (let seed = first; seed < first + rounds; seed += 1) {
      test(`${name}, SEED=${seed}`, { timeout: 300_000, skip: missing ?? false }, async () => {
        await within((options) => round(seed, options));
      });
    }
  }
});
