// @ts-check
// What can go wrong beside the processes: the stores, the links to them, clocks and disks.
//
// A fault is harmless to an instance if the instance, its store and the link between them are well again before its lease is over: then
// no stream of its runs may be cut. A longer fault is recorded as harm to the instances that it touches (`CrashWorld.harm`).

/** @typedef {import('./world.mjs').CrashWorld} CrashWorld */
/** @typedef {import('./world.mjs').Instance} Instance */
/** @typedef {import('../harness/random.mjs').Random} Random */
/**
 * @typedef {object} Fault
 * @property {number} weight how often it comes, among the others
 * @property {(world: CrashWorld) => boolean} fits whether it can happen there
 * @property {(world: CrashWorld, random: Random) => Promise<void>} strikes makes it, and everything well again
 */

/** For how long something is away, in milliseconds: an instance counts as alive for ten seconds. */
const SHORT = [300, 1_000, 6_000];
const ABSENCES = [300, 1_000, 1_000, 6_000, 6_000, 9_000, 40_000];
/** An absence of this many milliseconds may end a lease. */
const HARMS = 7_500;
/**
 * The same if the database sees that the connections of one instance end: it is taken for dead when it is silent
 * for some seconds, because that is what a process that was killed looks like.
 */
const HARMS_IF_ENDED = 2_500;

/** @param {number} time in milliseconds */
const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));

/** @param {CrashWorld} world */
const ownServer = (world) => world.postgres !== undefined;
/** Returns `true` if the database's server is there, and not about to go. @param {CrashWorld} world */
const hasServer = (world) => ownServer(world) && !world.isPostgresTouched;
/** @param {CrashWorld} world */
const hasRedis = (world) => world.redis !== undefined;
/** @param {CrashWorld} world */
const isSqlite = (world) => world.postgres === undefined && world.machines;

/**
 * Has something last for a while.
 *
 * @param {CrashWorld} world
 * @param {readonly Instance[]} touched
 * @param {string} what
 * @param {number} time in milliseconds
 * @param {number} [harms] the time when it begins to harm them
 */
async function lasts(world, touched, what, time, harms = HARMS) {
  world.note('nemesis', `${what} for ${time} ms`);
  const over = time >= harms ? world.harm(touched) : () => {};
  await pause(time);
  world.note('nemesis', `${what}: no more`);
  return over;
}

/**
 * A fault of one link.
 *
 * @param {'postgres' | 'redis'} store
 * @param {string} name
 * @param {(link: import('../harness/link.mjs').Link) => void} breaks
 * @param {number[]} times
 * @param {number} [harms] as in `lasts`
 * @returns {Fault['strikes']}
 */
const ofLink = (store, name, breaks, times, harms) => async (world, random) => {
  const instance = random.pick(world.instances);
  const link = instance.links[store];
  if (link === undefined) return;
  breaks(link);
  const what = `the link of instance ${instance.place} to ${store} ${name}`;
  const over = await lasts(world, [instance], what, random.pick(times), harms);
  link.mend();
  over();
};

/**
 * A fault of the disk that the one instance has its database on.
 *
 * @param {'full' | 'broken'} state
 * @param {string} what
 * @param {number[]} times
 * @returns {Fault['strikes']}
 */
const ofDisk = (state, what, times) => async (world, random) => {
  const [instance] = world.instances;
  if (instance?.machine === undefined) return;
  instance.machine.setDisk(state);
  const over = await lasts(world, world.instances, what, random.pick(times));
  instance.machine.setDisk('well');
  over();
};

/** @type {Record<string, Fault>} */
export const FAULTS = {
  slow: {
    weight: 1,
    fits: ownServer,
    strikes: ofLink('postgres', 'is slow', (link) => link.slowDown(40), [3_000]),
  },
  cut: {
    weight: 2,
    fits: ownServer,
    strikes: ofLink('postgres', 'is cut', (link) => link.cut(), [...SHORT, 13_000], HARMS_IF_ENDED),
  },
  partition: {
    weight: 2,
    fits: ownServer,
    strikes: ofLink('postgres', 'passes nothing', (link) => link.hold(), [...SHORT, 13_000]),
  },
  forgotten: {
    weight: 2,
    fits: ownServer,
    strikes: ofLink('postgres', 'has forgotten its connections', (link) => link.forget(), [1_000]),
  },
  'lost reply': {
    weight: 3,
    fits: ownServer,
    strikes: ofLink('postgres', 'loses the reply to a COMMIT', (link) => link.loseNextCommit('cut'), [2_000]),
  },
  'swallowed reply': {
    weight: 3,
    fits: ownServer,
    strikes: ofLink(
      'postgres',
      'swallows the reply to a COMMIT',
      (link) => link.loseNextCommit('swallowed'),
      [2_000],
    ),
  },
  'ended session': {
    weight: 3,
    fits: ownServer,
    strikes: async (world, random) => {
      const instance = random.pick(world.instances);
      for (let times = 1 + random.below(4); times > 0; times -= 1) {
        world.note('nemesis', `a connection of instance ${instance.place} is ended`);
        instance.links.postgres?.breakOne(random);
        await pause(300);
      }
    },
  },
  stop: {
    weight: 4,
    fits: hasServer,
    strikes: async (world, random) => {
      const { postgres } = world;
      if (postgres === undefined) return;
      world.isPostgresTouched = true;
      const time = random.pick(ABSENCES);
      await postgres.stop(random.pick(['fast', 'immediate']));
      const over = await lasts(world, world.instances, 'PostgreSQL is away', time);
      await postgres.start();
      world.isPostgresTouched = false;
      over();
    },
  },
  failover: {
    weight: 2,
    fits: (world) => hasServer(world) && world.standby !== undefined,
    strikes: async (world, random) => {
      const { postgres, standby } = world;
      if (postgres === undefined || standby === undefined) return;
      world.standby = undefined;
      world.isPostgresTouched = true;
      world.note('nemesis', 'the standby hears nothing more');
      const over = world.harm(world.instances);
      standby.loseTouch();
      await pause(random.below(600));
      await postgres.stop('immediate');
      await standby.promote();
      world.postgres = standby;
      world.hasLostCommits = true;
      for (const { links } of world.instances) links.postgres?.leadTo(standby.target);
      world.note('nemesis', 'the standby is the primary');
      world.isPostgresTouched = false;
      over();
      await postgres.discard();
    },
  },
  'Redis cut': {
    weight: 1,
    fits: hasRedis,
    strikes: ofLink('redis', 'is cut', (link) => link.cut(), SHORT),
  },
  'Redis partition': {
    weight: 1,
    fits: hasRedis,
    strikes: ofLink('redis', 'passes nothing', (link) => link.hold(), SHORT),
  },
  'Redis empty': {
    weight: 1,
    fits: hasRedis,
    strikes: async (world) => {
      world.note('nemesis', 'Redis is emptied');
      world.redis?.evaluate('return redis.call("FLUSHALL")');
    },
  },
  'Redis away': {
    weight: 1,
    fits: hasRedis,
    strikes: async (world, random) => {
      await world.redis?.stop();
      await lasts(world, [], 'Redis is away', random.pick(SHORT));
      await world.redis?.start();
    },
  },
  clock: {
    weight: 2,
    fits: ({ machines }) => machines,
    strikes: async (world, random) => {
      const instance = random.pick(world.instances);
      const offset = random.pick(['+25h', '-25h', '+40s', '+90d']);
      world.note('nemesis', `the clock of instance ${instance.place} is at ${offset}`);
      instance.machine?.setClock(offset);
      await pause(random.pick([1_000, 4_000]));
      if (random.chance(0.5)) instance.machine?.setClock('+0');
    },
  },
  'full disk': {
    weight: 3,
    fits: isSqlite,
    strikes: ofDisk('full', 'the disk is full', [300, 1_000, 3_000]),
  },
  'failed fsync': {
    weight: 3,
    fits: isSqlite,
    strikes: ofDisk('broken', 'the disk makes nothing durable', [100, 1_000]),
  },
};

/**
 * A fault that fits the world.
 *
 * @param {CrashWorld} world
 * @param {Random} random
 * @param {string} [only] the name of the one that is wanted
 * @returns {Fault | undefined}
 */
export function someFault(world, random, only) {
  const fitting = Object.entries(FAULTS).filter(([name, { fits }]) => fits(world) && (only ?? name) === name);
  let left = random.below(fitting.reduce((sum, [, { weight }]) => sum + weight, 0));
  for (const [, fault] of fitting) {
    left -= fault.weight;
    if (left < 0) return fault;
  }
  return undefined;
}
