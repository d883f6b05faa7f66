// @ts-check
// A few rounds of `npm run soak`. A failure names the seed that `npm run
// soak` takes.

import { describe, test } from 'node:test';
import { KINDS } from '../crash/kinds.mjs';

const ROUNDS = 3;
/** Rounds in which stores fail, or pages are read, take longer: a stopped service comes back after a while. */
const FEW_ROUNDS = 2;
const first = Number(process.env.SEED ?? Date.now() % 1_000_000);

describe('whatever fails, nothing promised is lost and nothing is done twice', { concurrency: 2 }, () => {
  for (const [name, { missing, plays }] of Object.entries(KINDS)) {
    const rounds = /-faults$|^pages-/.test(name) ? FEW_ROUNDS : ROUNDS;
    for (let seed = first; seed < first + rounds; seed += 1) {
      test(`${name}, SEED=${seed}`, { timeout: 300_000, skip: missing ?? false }, async () => {
        await plays(seed);
      });
    }
  }
});
