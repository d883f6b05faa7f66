// @ts-check
// `npm run soak`: many rounds. ROUNDS or MINUTES limits them, SEED is the first seed, KIND chooses
// the database and the number of instances. A failed round says its seed; the others go on, so that one run
// shows how often it happens.

import { KINDS } from './kinds.mjs';

const { ROUNDS = '', MINUTES = '', SEED = '', KIND = 'all', WORKERS = '2' } = process.env;
const first = Number(SEED === '' ? Date.now() % 1_000_000 : SEED);
const most = ROUNDS === '' ? (MINUTES === '' ? 100 : Infinity) : Number(ROUNDS);
const deadline = MINUTES === '' ? Infinity : Date.now() + Number(MINUTES) * 60_000;
const kinds = Object.entries(KINDS).filter(([name, { missing }]) =>
  KIND === 'all' ? !missing : name === KIND,
);

let begun = 0;
let kills = 0;
/** @type {string[]} */
const failed = [];

async function works() {
  while (begun < most && Date.now() < deadline) {
    const place = begun++;
    const [name, kind] = /** @type {typeof kinds[number]} */ (kinds[place % kinds.length]);
    const seed = first + place;
    try {
      const done = await kind.plays(seed);
      kills += done.kills;
      if ((place + 1) % 25 === 0)
        console.log(`${place + 1} rounds, ${kills} kills, ${failed.length} failures`);
    } catch (error) {
      failed.push(`${name} ${seed}`);
      console.log(`\n=== KIND=${name} ${error instanceof Error ? error.message : error}\n`);
    }
  }
}

console.log(`SEED=${first}, ${kinds.map(([name]) => name).join(' and ')}`);
await Promise.all(Array.from({ length: Number(WORKERS) }, works));
console.log(
  `${begun} rounds, ${kills} kills, ${failed.length} failures${failed.length > 0 ? `: ${failed.join(', ')}` : ''}`,
);
process.exit(failed.length > 0 ? 1 : 0);
