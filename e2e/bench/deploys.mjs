// @ts-check
// `npm run bench`: what pages show while the two instances behind nginx are replaced one after the other. REPLACEMENTS says how often, PAGES how
// many pages there are, FERMATA_DRAIN for how long runs at work may go on. The figures are the longest time without progress of an answer,
// the errors, and the answers that ask the model twice.

import { setTimeout as pause } from 'node:timers/promises';
import { Deployment } from '../crash/deploys.mjs';
import { Page } from '../crash/page.mjs';
import { KINDS_OF_TURN, NumberingModel } from '../crash/words.mjs';
import { newestOf } from '../harness/clients.mjs';
import { NO_NGINX } from '../harness/nginx.mjs';
import { Random } from '../harness/random.mjs';
import { NO_SERVICES } from '../harness/services.mjs';

const REPLACEMENTS = Number(process.env.REPLACEMENTS ?? 50);
const PAGES = Number(process.env.PAGES ?? 40);
/** Between two words, in milliseconds: twenty words a second are more than anybody reads. */
const PACE = 50;
/** Between two replacements, in milliseconds. */
const BREAK = 3_000;
const SEED = process.env.SEED ?? '1';
/** The time that runs at work may go on; the server's own by default. */
const { FERMATA_DRAIN } = process.env;

/** @param {number[]} times sorted @param {number} share */
const quantile = (times, share) => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0;

/** @param {number} time in milliseconds */
const seconds = (time) => `${(time / 1000).toFixed(2)} s`;

async function measures() {
  const world = await Deployment.create(
    FERMATA_DRAIN === undefined ? {} : { FERMATA_DRAIN },
    new NumberingModel(PACE),
  );
  const random = new Random('bench', SEED);
  /** @type {Page[]} */
  const pages = [];
  try {
    for (let place = 1; place <= PAGES; place += 1) {
      const page = await Page.open(world, `p${place}`, newestOf(7));
      page.isWatched = false;
      pages.push(page);
    }
    let isOver = false;
    const talks = pages.map(async (page) => {
      const whims = random.fork(page.id);
      while (!isOver && page.faults.length === 0) {
        await pause(whims.below(1000));
        await page.talks(whims.pick(KINDS_OF_TURN));
      }
    });
    const begun = performance.now();
    /** @type {number[]} */
    const ends = [];
    for (let count = 0; count < REPLACEMENTS; count += 1) {
      await pause(BREAK);
      const server = world.instances[count % world.instances.length];
      const begin = performance.now();
      if (server !== undefined) await world.ends(server, 'replaced');
      ends.push(performance.now() - begin);
    }
    isOver = true;
    await Promise.all(talks);
    tells(world, pages, ends, performance.now() - begun);
  } finally {
    for (const page of pages) page.leave();
    await world.dispose();
  }
}

/** @param {Deployment} world @param {Page[]} pages @param {number[]} ends @param {number} lasted */
function tells(world, pages, ends, lasted) {
  const stalls = pages.flatMap((page) => page.stalls).sort((one, other) => one - other);
  const refusals = pages.flatMap((page) => page.refusals.map(({ lasted }) => lasted));
  const faults = pages.flatMap((page) => page.faults);
  ends.sort((one, other) => one - other);
  console.log(
    `${world.count} replacements in ${Math.round(lasted / 1000)} s, ${PAGES} pages, ${stalls.length} answers, ` +
      `one replacement p50 ${seconds(quantile(ends, 0.5))}, max ${seconds(ends.at(-1) ?? 0)}`,
  );
  console.log(
    `longest time without progress in an answer: p50 ${seconds(quantile(stalls, 0.5))}, ` +
      `p99 ${seconds(quantile(stalls, 0.99))}, max ${seconds(stalls.at(-1) ?? 0)}`,
  );
  console.log(`errors on pages: ${faults.length}`);
  console.log(
    `requests that the model was made twice: ${world.model.repeated} of ${world.api.requests.length}`,
  );
  console.log(
    `posts and answers that were refused: ${refusals.length}, taken after ${seconds(Math.max(0, ...refusals))} at most`,
  );
  for (const fault of faults.slice(0, 20)) console.log(fault);
}

const missing = NO_SERVICES ?? NO_NGINX;
if (missing === undefined) await measures();
else console.log(`deploys: ${missing}`);
