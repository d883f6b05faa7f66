// @ts-check
// The built binary as a process of its own: a free port, a fresh folder, its log kept, killed and started
// again on the same database. The environment is empty but for what a test sets, so no setting of the machine
// leaks in.

import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { freePort } from './ports.mjs';
import { until } from './until.mjs';

const REPOSITORY = path.resolve(import.meta.dirname, '../..');

/** @returns {string} the binary under test: `FERMATA_BIN`, or the one that was built last */
export function binary() {
  if (process.env.FERMATA_BIN) return path.resolve(process.env.FERMATA_BIN);
  const target = process.env.CARGO_TARGET_DIR ?? path.join(REPOSITORY, 'target');
  const built = ['release', 'debug']
    .map((profile) => path.join(target, profile, 'fermata'))
    .filter((file) => existsSync(file))
    .sort((one, other) => statSync(other).mtimeMs - statSync(one).mtimeMs);
  if (built[0] === undefined) throw new Error('there is no binary: run `cargo build`, or set FERMATA_BIN');
  return built[0];
}

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

export class Server {
  /** The folder that it runs in, with its database, and the settings file that it finds by itself. */
  folder = mkdtempSync(path.join(os.tmpdir(), 'fermata-e2e-'));
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  #port;
  #settings;
  /** @type {string[]} */
  #through;
  /** The program, if it is not the one under test. */
  /** @type {string | undefined} */
  binary;
  /** Everything it has written, over all restarts. */
  log = '';

  /**
   * @param {number} port
   * @param {Record<string, string>} settings environment variables
   * @param {string[]} [through] a command that becomes the server when the binary is its last argument
   */
  constructor(port, settings, through = []) {
    this.#port = port;
    this.#settings = settings;
    this.#through = through;
  }

  /**
   * @param {Record<string, string>} settings environment variables
   * @param {number} [port]
   */
  static async start(settings, port) {
    const server = new Server(port ?? (await freePort()), settings);
    await server.start();
    return server;
  }

  get url() {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** `true` if the process is there. */
  get alive() {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** @param {Record<string, string>} settings environment variables of its next start, besides the others */
  set(settings) {
    this.#settings = { ...this.#settings, ...settings };
  }

  /** Starts the process, and does not wait until it listens. */
  launch() {
    const [command = '', ...args] = [...this.#through, this.binary ?? binary()];
    const child = spawn(command, args, {
      cwd: this.folder,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env.PATH,
        RUST_BACKTRACE: '1',
        RUST_LOG: process.env.RUST_LOG ?? 'info',
        NO_COLOR: '1',
        // No proxy has to notice anything, unless a test asks for it.
        FERMATA_LINGER: '0s',
        FERMATA_BIND: `127.0.0.1:${this.#port}`,
        DATABASE_URL: `sqlite://${this.folder}/chats.db`,
        ...this.#settings,
      },
    });
    this.#child = child;
    running.add(child);
    child.once('exit', () => running.delete(child));
    child.once('error', (error) => {
      this.log += `${error}\n`;
    });
    for (const output of [child.stdout, child.stderr]) {
      output.on('data', (/** @type {Buffer} */ bytes) => {
        this.log += bytes.toString('utf8');
      });
    }
    return child;
  }

  async start() {
    const child = this.launch();
    await until(
      () => {
        if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined)
          throw new Error(`the server did not start:\n${this.log}`);
        return fetch(`${this.url}/healthz`).then(
          (response) => response.ok,
          () => false,
        );
      },
      () => `200 from /healthz:\n${this.log}`,
    );
  }

  /**
   * Runs the program with arguments, on this server's database and beside it.
   *
   * @param {...string} args
   * @returns {Promise<{ code: number, output: string }>} what it has written, errors included
   */
  async command(...args) {
    const env = {
      PATH: process.env.PATH,
      DATABASE_URL: this.#settings.DATABASE_URL ?? `sqlite://${this.folder}/chats.db`,
    };
    return new Promise((resolve) => {
      execFile(this.binary ?? binary(), args, { cwd: this.folder, env }, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code ?? 1), output: stdout + stderr });
      });
    });
  }

  /** @param {string} settings for `fermata.toml` */
  configure(settings) {
    writeFileSync(path.join(this.folder, 'fermata.toml'), settings);
  }

  /**
   * Has it read its settings again and waits until it has said what came of it.
   *
   * @param {string} settings for `fermata.toml`
   * @returns {Promise<string>} what it has logged since
   */
  async reconfigure(settings) {
    const before = this.log.length;
    this.configure(settings);
    this.#child?.kill('SIGHUP');
    const said = () => this.log.slice(before);
    await until(
      () => /settings (again|were not reloaded)[^\n]*\n/.test(said()),
      () => `a word about the settings:\n${said()}`,
    );
    return said();
  }

  /** @param {NodeJS.Signals} signal that the process is sent */
  signal(signal) {
    this.#child?.kill(signal);
  }

  /** The exit status, once it has ended by itself. */
  get exitCode() {
    return this.#child?.exitCode;
  }

  get pid() {
    return this.#child?.pid;
  }

  /** Kills the process the hard way: it has no chance to tidy up. */
  async kill() {
    const child = this.#child;
    if (child === undefined || !this.alive) return;
    const exited = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await exited;
  }

  /** Has it end in good order. */
  async end() {
    this.#child?.kill('SIGTERM');
    await until(
      () => !this.alive,
      () => `the server to end:\n${this.log}`,
      // What is under way in a database that does not answer is waited for.
      60_000,
    );
  }

  /** Kills it and removes its folder. */
  async discard() {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
