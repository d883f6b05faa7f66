// @ts-check
// A few rounds of what `npm run soak` does for as long as it is told. A failure names the seed that `npm run
// soak` takes.

import { describe, test } from 'node:test';
import { KINDS } from '../crash/kinds.mjs';
import { round } from '../crash/round.mjs';

const ROUNDS = 3;
const first = Number(process.env.SEED ?? Date.now() % 1_000_000);

describe('whatever is killed, nothing promised is lost and nothing is done twice', { concurrency: 2 }, () => {
  for (const [name, { missing, within }] of Object.entries(KINDS)) {
    for (let seed = first; seed < first + ROUNDS; seed += 1) {
      test(`${name}, SEED=${seed}`, { timeout: 120_000, skip: missing ?? false }, async () => {
        await within((options) => round(seed, options));
      });
    }
  }
});
