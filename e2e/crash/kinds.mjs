// @ts-check
// What rounds can take place on: each kind makes a place for one round and tidies up after it.

import { NO_DATABASE } from '../harness/database.mjs';
import { NO_NGINX } from '../harness/nginx.mjs';
import { NO_SERVER, PostgresServer } from '../harness/postgres-server.mjs';
import { NO_PRELOAD } from '../harness/preload.mjs';
import { NO_SERVICES, Postgres, Redis } from '../harness/services.mjs';
import { channelsRound } from './channels.mjs';
import { deployRound } from './deploys.mjs';
import { round } from './round.mjs';

/** @typedef {{ kills: number, requests: number }} Outcome */
/**
 * @typedef {object} Kind
 * @property {string | undefined} missing what it needs and this machine has not
 * @property {(seed: number) => Promise<Outcome>} plays a round
 */

/**
 * `true` if runs must go on by themselves after a restart; UNTOUCHED=0 is for a binary that continues them when
 * they are asked for.
 */
const untouched = process.env.UNTOUCHED !== '0';

/** The number of connections of an instance. */
const FERMATA_DATABASE_CONNECTIONS = '4';

/** Another version of the server, for clusters of two versions. */
const { OTHER_BIN } = process.env;

const CLUSTER = { FERMATA_DATABASE_CONNECTIONS, FERMATA_DRAIN: '1s' };

/** @type {Record<string, Kind>} */
export const KINDS = {
  sqlite: { missing: undefined, plays: (seed) => round(seed, { untouched }) },
  postgres: {
    missing: NO_SERVICES,
    plays: async (seed) => {
      const database = await Postgres.create();
      try {
        return await round(seed, {
          untouched,
          setup: { settings: { DATABASE_URL: database.url, FERMATA_DATABASE_CONNECTIONS } },
        });
      } finally {
        await database.drop();
      }
    },
  },
  cluster: {
    missing: NO_SERVICES,
    plays: async (seed) => {
      const [database, redis] = [await Postgres.create(), await Redis.start()];
      try {
        const settings = { ...CLUSTER, DATABASE_URL: database.url, REDIS_URL: redis.url };
        return await round(seed, { untouched, setup: { settings, instances: 3 } });
      } finally {
        await redis.stop();
        await database.drop();
      }
    },
  },
  'sqlite-faults': {
    missing: NO_PRELOAD,
    plays: (seed) => round(seed, { untouched, faults: true, setup: { machines: true } }),
  },
  'postgres-faults': {
    missing: NO_SERVER,
    plays: async (seed) => {
      const postgres = await PostgresServer.start();
      try {
        const settings = { FERMATA_DATABASE_CONNECTIONS };
        return await round(seed, { untouched, faults: true, setup: { settings, postgres, standby: true } });
      } finally {
        await postgres.discard();
      }
    },
  },
  'cluster-faults': {
    missing: NO_SERVER ?? NO_SERVICES ?? NO_PRELOAD,
    plays: async (seed) => {
      const [postgres, redis] = [await PostgresServer.start(), await Redis.start()];
      try {
        const setup = { settings: CLUSTER, postgres, redis, standby: true, machines: true, instances: 3 };
        return await round(seed, {
          untouched,
          faults: true,
          setup: { ...setup, ...(OTHER_BIN !== undefined && { otherBinary: OTHER_BIN }) },
        });
      } finally {
        await redis.stop();
        await postgres.discard();
      }
    },
  },
  'channels-sqlite': { missing: NO_DATABASE, plays: (seed) => channelsRound(seed) },
  'channels-cluster': {
    missing: NO_SERVICES,
    plays: async (seed) => {
      const [database, redis] = [await Postgres.create(), await Redis.start()];
      try {
        const settings = { ...CLUSTER, REDIS_URL: redis.url };
        return await channelsRound(seed, { settings, instances: 2, database });
      } finally {
        await redis.stop();
        await database.drop();
      }
    },
  },
  'pages-deploys': {
    missing: NO_SERVICES ?? NO_NGINX,
    plays: (seed) => deployRound(seed, { manner: 'replaced' }),
  },
  'pages-kills': {
    missing: NO_SERVICES ?? NO_NGINX,
    plays: (seed) => deployRound(seed, { manner: 'killed' }),
  },
};
