// @ts-check
// A PostgreSQL server of a test's own, which may be stopped, started again, and replaced by a standby that lacks the last commits.

import { execFile, execFileSync, spawn } from 'node:child_process';
import { cpSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { Link } from './link.mjs';
import { freePort } from './ports.mjs';
import { rows } from './services.mjs';
import { until } from './until.mjs';

const HOST = '127.0.0.1';
const ADMIN = 'postgres';

/** @returns {string | undefined} the folder with the programs of the newest PostgreSQL that is installed */
function programs() {
  const folders = (process.env.PATH ?? '').split(path.delimiter);
  const versions = '/usr/lib/postgresql';
  if (existsSync(versions)) {
    const newest = readdirSync(versions).sort((one, other) => Number(other) - Number(one));
    folders.push(...newest.map((version) => path.join(versions, version, 'bin')));
  }
  return folders.find(
    (folder) => existsSync(path.join(folder, 'pg_basebackup')) && existsSync(path.join(folder, 'initdb')),
  );
}

const PROGRAMS = programs();

/** Why no server can be started here; `undefined` if one can. */
export const NO_SERVER = PROGRAMS === undefined ? 'the programs of PostgreSQL are not there' : undefined;
if (NO_SERVER !== undefined && process.env.FERMATA_REQUIRE_SERVICES === '1') throw new Error(NO_SERVER);

/** The user that runs the server, which refuses to be run by root. */
const rank = /** @type {{ uid?: number, gid?: number }} */ (
  (() => {
    if (process.getuid?.() !== 0) return {};
    const id = (/** @type {string} */ which) => Number(execFileSync('id', [which, ADMIN]));
    return { uid: id('-u'), gid: id('-g') };
  })()
);

/** @param {string} program @param {string[]} args */
const run = (program, args) =>
  promisify(execFile)(path.join(PROGRAMS ?? '', program), args, { ...rank, cwd: '/' });

/** @returns {string} a folder that the server's user may use */
function folder() {
  // Where a server's sockets are must have a short path.
  const made = mkdtempSync(path.join(os.tmpdir(), 'fermata-pg-'));
  if (rank.uid !== undefined && rank.gid !== undefined) chownSync(made, rank.uid, rank.gid);
  return made;
}

/** The folder of a server that has nothing in it, which others are copied from. */
/** @type {Promise<string> | undefined} */
let template;

async function makeTemplate() {
  const made = folder();
  process.on('exit', () => rmSync(made, { recursive: true, force: true }));
  const as = ['-U', ADMIN, '-A', 'trust', '-E', 'UTF8', '--no-locale', '--no-sync'];
  await run('initdb', ['-D', `${made}/data`, ...as]);
  return made;
}

/** @type {Set<PostgresServer>} */
const running = new Set();
process.on('exit', () => {
  for (const server of running) server.signal('SIGQUIT');
});

export class PostgresServer {
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  /** The link from its primary, if this server is a standby. It carries the commits. */
  /** @type {Link | undefined} */
  #replication;
  log = '';

  /**
   * @param {string} folder
   * @param {number} port
   */
  constructor(folder, port) {
    this.folder = folder;
    this.port = port;
  }

  static async start() {
    template ??= makeTemplate();
    const made = await template;
    const server = new PostgresServer(folder(), await freePort());
    cpSync(`${made}/data`, `${server.folder}/data`, { recursive: true, preserveTimestamps: true });
    if (rank.uid !== undefined) execFileSync('chown', ['-R', `${rank.uid}:${rank.gid}`, server.folder]);
    execFileSync('chmod', ['-R', 'go-rwx', server.folder]);
    await server.start();
    return server;
  }

  get url() {
    return `postgres://${ADMIN}@${HOST}:${this.port}/${ADMIN}`;
  }

  /** @returns {import('./link.mjs').Target} */
  get target() {
    return { host: HOST, port: this.port };
  }

  async start() {
    const settings = [
      `listen_addresses=${HOST}`,
      `port=${this.port}`,
      `unix_socket_directories=${this.folder}`,
      'max_connections=100',
      'shared_buffers=16MB',
      'wal_keep_size=64MB',
    ].flatMap((setting) => ['-c', setting]);
    const args = ['-D', `${this.folder}/data`, ...settings];
    const child = spawn(path.join(PROGRAMS ?? '', 'postgres'), args, { ...rank, cwd: '/' });
    this.#child = child;
    running.add(this);
    child.once('exit', () => running.delete(this));
    for (const output of [child.stdout, child.stderr])
      output.on('data', (/** @type {Buffer} */ bytes) => {
        this.log += bytes.toString('utf8');
      });
    await until(
      () => {
        if (child.exitCode !== null) throw new Error(`PostgreSQL did not start:\n${this.log}`);
        return this.rows('select 1').then(
          () => true,
          () => false,
        );
      },
      () => `PostgreSQL to take connections:\n${this.log}`,
    );
  }

  /** Ends it as an administrator does who is in a hurry, or as a power cut does. @param {'fast' | 'immediate'} [how] */
  async stop(how = 'fast') {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise((resolve) => child.once('exit', resolve));
    this.signal(how === 'fast' ? 'SIGINT' : 'SIGQUIT');
    await exited;
  }

  /** @param {NodeJS.Signals} signal */
  signal(signal) {
    this.#child?.kill(signal);
  }

  /** Starts a standby, which has everything as soon as this returns. */
  async standby() {
    const standby = new PostgresServer(folder(), await freePort());
    standby.#replication = await Link.open(this.target);
    const through = new URL(standby.#replication.through(this.url));
    await run('pg_basebackup', [
      '-D',
      `${standby.folder}/data`,
      '-R',
      '-X',
      'stream',
      '-c',
      'fast',
      '-U',
      ADMIN,
      '-h',
      HOST,
      '-p',
      through.port,
    ]);
    await standby.start();
    return standby;
  }

  /** Has a standby hear of nothing that its primary commits from now on. */
  loseTouch() {
    this.#replication?.hold();
  }

  /** Makes a standby a primary. */
  async promote() {
    await this.rows('select pg_promote()');
    await until(
      () => this.rows('select pg_is_in_recovery() as standby').then(([row]) => row?.standby === false),
      'the standby to be the primary',
    );
  }

  /** @param {string} query @returns {Promise<Record<string, unknown>[]>} */
  async rows(query) {
    return rows(this.url, query);
  }

  async discard() {
    await this.stop('immediate');
    await this.#replication?.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
