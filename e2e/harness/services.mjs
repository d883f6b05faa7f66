// @ts-check
// PostgreSQL and Redis for tests. Each test has a database of its own on the PostgreSQL server that is there,
// and a Redis server of its own on a free port, which it may stop. If one of them is missing, the tests
// that need it are skipped, unless FERMATA_REQUIRE_SERVICES=1 says that they must not be.

import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import net from 'node:net';
import pg from 'pg';
import { freePort } from './ports.mjs';
import { until } from './until.mjs';

const ADMIN = process.env.FERMATA_TEST_POSTGRES_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres';

/**
 * @param {string} url
 * @param {string} query
 * @returns {Promise<Record<string, unknown>[]>}
 */
export async function rows(url, query) {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 10_000,
    query_timeout: 60_000,
  });
  // The server may end in the middle of it; then the query fails, and the caller that waits for the server asks again.
  client.on('error', () => {});
  await client.connect();
  try {
    const { rows: found } = await client.query(query);
    await client.end();
    return found;
  } catch (error) {
    // A connection that has failed may never say that it has ended.
    void client.end().catch(() => {});
    throw error;
  }
}

/** A database of its own, dropped at the end. */
export class Postgres {
  /** @param {string} name */
  constructor(name) {
    this.name = name;
    const url = new URL(ADMIN);
    url.pathname = `/${name}`;
    this.url = String(url);
  }

  static async create() {
    const database = new Postgres(`fermata_e2e_${process.pid}_${randomBytes(4).toString('hex')}`);
    await rows(ADMIN, `create database ${database.name}`);
    return database;
  }

  /** @param {string} query @returns {Promise<Record<string, unknown>[]>} */
  async rows(query) {
    return rows(this.url, query);
  }

  async drop() {
    await rows(ADMIN, `drop database if exists ${this.name} with (force)`);
  }
}

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** A Redis server that keeps nothing: started again it is empty. */
export class Redis {
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  #port;

  /** @param {number} port */
  constructor(port) {
    this.#port = port;
  }

  static async start() {
    const redis = new Redis(await freePort());
    await redis.start();
    return redis;
  }

  get url() {
    return `redis://127.0.0.1:${this.#port}`;
  }

  get target() {
    return { host: '127.0.0.1', port: this.#port };
  }

  async start() {
    const args = ['--port', String(this.#port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
    const child = spawn('redis-server', args, { stdio: 'ignore' });
    this.#child = child;
    running.add(child);
    child.once('exit', () => running.delete(child));
    await until(() => {
      if (child.exitCode !== null || child.signalCode !== null)
        throw new Error(`Redis did not start on port ${this.#port}`);
      return answers(this.#port);
    }, 'Redis to listen');
  }

  /**
   * Runs a Lua script in it, as anyone with write access may.
   *
   * @param {string} script
   * @param {string[]} args
   */
  evaluate(script, ...args) {
    execFileSync('redis-cli', ['-p', String(this.#port), '-e', 'EVAL', script, '0', ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
  }

  async stop() {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await exited;
  }
}

/** @param {number} port @returns {Promise<boolean>} whether Redis answers there */
async function answers(port) {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () => socket.write('PING\r\n'));
    socket.once('data', (bytes) => {
      resolve(bytes.toString().startsWith('+PONG'));
      socket.destroy();
    });
    socket.once('error', () => resolve(false));
  });
}

/** @returns {Promise<string | undefined>} what is missing */
async function missing() {
  const postgres = await rows(ADMIN, 'select 1').then(
    () => undefined,
    (error) => `no PostgreSQL can be reached (${error.code ?? error.message})`,
  );
  if (postgres !== undefined) return postgres;
  try {
    execFileSync('redis-server', ['--version'], { stdio: 'ignore' });
  } catch {
    return 'there is no redis-server program';
  }
  return undefined;
}

/** Why nothing that needs PostgreSQL and Redis can be tested here; `undefined` where it can. */
export const NO_SERVICES = await missing();

if (NO_SERVICES !== undefined && process.env.FERMATA_REQUIRE_SERVICES === '1') throw new Error(NO_SERVICES);
