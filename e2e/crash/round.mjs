// @ts-check
// One round: clients talk, the server is killed at moments that the seed has chosen and started again, in the
// end everything is killed in the middle of it all. Then nobody touches anything until it is settled, and all
// that was promised is looked for.

import { Random } from '../harness/random.mjs';
import { VERSIONS } from '../harness/clients.mjs';
import { until } from '../harness/until.mjs';
import { faultsOfChat, faultsOfEffects, faultsOfRows } from './checks.mjs';
import { Killer } from './killer.mjs';
import { chatOf } from './model.mjs';
import { Talker } from './talker.mjs';
import { CrashWorld, Halted } from './world.mjs';

/** @typedef {import('./world.mjs').Setup} Setup */

const TURNS = 3;
const LOG_LINES = 60;
/** In milliseconds. */
const HOPELESS = 90_000;
/** The same if stores may be away. */
const HOPELESS_WITH_FAULTS = 240_000;
/** The error of the model API for a request without messages. */
const EMPTY = 'messages is empty';

/**
 * @typedef {object} Options
 * @property {Setup} [setup]
 * @property {boolean} [untouched] whether runs go on by themselves after a restart; without it each is asked
 * for once
 * @property {number} [chats]
 * @property {boolean} [faults] whether stores, links, clocks and disks also fail
 */

/**
 * @param {string | number} seed
 * @param {Options} [options]
 * @returns {Promise<{ kills: number, requests: number }>}
 */
export async function round(
  seed,
  { setup = {}, untouched = true, chats = 3, faults: withFaults = false } = {},
) {
  const random = new Random('round', seed);
  const world = await CrashWorld.create(random, setup);
  const talkers = Array.from(
    { length: chats },
    (_, place) => new Talker(world, `c${place + 1}`, random.pick(VERSIONS)),
  );
  const killer = new Killer(world, random.fork('killer'), withFaults);
  try {
    await Promise.race([plays(world, killer, talkers, untouched), isStuck(talkers, withFaults)]);
    // A chat that the database forgets between the first commit of a run and its request has no messages.
    const verdict = world.api.verdict.filter((fault) => !world.hasLostCommits || fault !== EMPTY);
    const faults = [...world.faults, ...verdict, ...faultsOfEffects(world)];
    if (!world.hasLostCommits) faults.push(...world.model.faults);
    faults.push(...(await faultsOfRows(world)));
    for (const talker of talkers) faults.push(...(await faultsOfChat(talker)));
    if (faults.length > 0) throw new Error(faults.join('\n'));
    return { kills: killer.kills, requests: world.api.requests.length };
  } catch (error) {
    throw new Error(story(seed, world, error), { cause: error });
  } finally {
    killer.rests();
    await world.dispose();
  }
}

/**
 * @param {CrashWorld} world
 * @param {Killer} killer
 * @param {Talker[]} talkers
 * @param {boolean} untouched
 */
async function plays(world, killer, talkers, untouched) {
  await talksUnder(killer, talkers);
  // A run that was stopped is over, although the model may not have seen yet that nobody listens any more.
  const isAtWork = (/** @type {Talker} */ { caller, cutShort, turn }) =>
    caller.unsure === undefined && !cutShort.has(turn);
  const cut = await killer.ends(() => talkers.filter(isAtWork).map(({ chat }) => chat));
  if (untouched) await goesOnByItself(world, cut);
  world.halted = false;
  await Promise.all(
    talkers.map((talker) =>
      talker.concludes().then(
        () => {
          talker.concluded = true;
        },
        (error) => Promise.reject(told(talker, error)),
      ),
    ),
  );
}

/**
 * Fails when hope is lost that the round ends.
 *
 * @param {Talker[]} talkers
 * @param {boolean} withFaults
 * @returns {Promise<never>}
 */
const isStuck = (talkers, withFaults) =>
  new Promise((_, reject) => {
    const stuck = () =>
      `the round does not end; not through: ${talkers.filter(({ concluded }) => !concluded).map(({ chat }) => chat)}`;
    const hopeless = withFaults ? HOPELESS_WITH_FAULTS : HOPELESS;
    setTimeout(() => reject(new Error(stuck())), hopeless).unref();
  });

/**
 * Lets the clients talk until they are through, or the killer stops them.
 *
 * @param {Killer} killer
 * @param {Talker[]} talkers
 */
async function talksUnder(killer, talkers) {
  const talks = talkers.map((talker) =>
    talker.talks(TURNS).catch((error) => {
      if (!(error instanceof Halted)) throw told(talker, error);
    }),
  );
  await Promise.race([Promise.all(talks), killer.works()]);
  killer.world.halt();
  for (const talker of talkers) talker.halts();
  await Promise.all(talks);
}

/** @param {Talker} talker @param {unknown} error */
const told = ({ chat }, error) =>
  new Error(`${chat}: ${error instanceof Error ? error.message : error}`, { cause: error });

/**
 * A step whose model was cut off is asked for again although nobody asks for the chat.
 *
 * @param {CrashWorld} world
 * @param {Map<string, number>} cut how many requests the model had had by chat, where it was speaking
 */
async function goesOnByItself(world, cut) {
  const silent = () =>
    [...cut].filter(
      ([chat, before]) => world.asked.filter((request) => chatOf(request) === chat).length <= before,
    );
  await until(
    () => silent().length === 0,
    () => `the model to be asked again for ${silent().map(([chat]) => chat)}, which nobody has touched`,
  );
}

/**
 * Returns the evidence of a failed round.
 *
 * @param {string | number} seed
 * @param {CrashWorld} world
 * @param {unknown} error
 */
function story(seed, world, error) {
  const words = error instanceof Error ? (error.stack ?? error.message) : String(error);
  const chats = new Set([...words.matchAll(/\bc\d+\b/g)].map(([chat]) => chat));
  const traces = [...chats].map((chat) => `--- ${chat}\n${world.trace(chat)}`);
  const logs = world.servers.map(
    (server) => `--- log\n${server.log.split('\n').slice(-LOG_LINES).join('\n')}`,
  );
  return [`SEED=${seed} ROUNDS=1 fails:`, words, ...traces, ...logs].join('\n');
}
