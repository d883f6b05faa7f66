// @ts-check
// nginx with the settings of `deploy/nginx.conf`, of which only ports, folders and the names of the instances
// are others here. Without an nginx its tests are skipped, unless FERMATA_REQUIRE_SERVICES=1 says that they
// must not be.

import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { freePort } from './ports.mjs';
import { until } from './until.mjs';

const SETTINGS = path.resolve(import.meta.dirname, '../../deploy/nginx.conf');

/** @returns {string | undefined} what is missing */
function missing() {
  for (const [program, option] of /** @type {const} */ ([
    ['nginx', '-v'],
    ['openssl', 'version'],
  ])) {
    try {
      execFileSync(program, [option], { stdio: 'ignore' });
    } catch {
      return `there is no ${program} program`;
    }
  }
  return undefined;
}

/** Why nothing can be tested behind nginx here; `undefined` where it can. */
export const NO_NGINX = missing();

if (NO_NGINX !== undefined && process.env.FERMATA_REQUIRE_SERVICES === '1') throw new Error(NO_NGINX);

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

export class Nginx {
  #folder = mkdtempSync(path.join(os.tmpdir(), 'fermata-nginx-'));
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  #plain = 0;
  #tls = 0;
  log = '';

  /** @param {string[]} instances their addresses, such as `127.0.0.1:3000` */
  static async start(...instances) {
    const nginx = new Nginx();
    await nginx.#start(instances);
    return nginx;
  }

  /** HTTP/1.1, without TLS. */
  get url() {
    return `http://127.0.0.1:${this.#plain}`;
  }

  /** HTTP/2 for those who speak it, with a certificate that nobody knows. */
  get tlsUrl() {
    return `https://127.0.0.1:${this.#tls}`;
  }

  /** @param {string[]} instances */
  async #start(instances) {
    this.#plain = await freePort();
    this.#tls = await freePort();
    const file = path.join(this.#folder, 'nginx.conf');
    writeFileSync(file, this.#adapted(instances));
    this.#makeCertificate();
    const child = spawn('nginx', ['-c', file, '-e', 'stderr', '-g', 'daemon off;'], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#child = child;
    running.add(child);
    child.once('exit', () => running.delete(child));
    child.stderr.on('data', (bytes) => {
      this.log += bytes;
    });
    await until(() => {
      if (child.exitCode !== null || child.signalCode !== null)
        throw new Error(`nginx did not start:\n${this.log}`);
      return fetch(`${this.url}/metrics`).then(
        (response) => response.status === 404,
        () => false,
      );
    }, 'nginx to answer');
  }

  /** @param {string[]} instances */
  #adapted(instances) {
    let settings = readFileSync(SETTINGS, 'utf8');
    /** @type {(from: string | RegExp, to: string) => void} */
    const replace = (from, to) => {
      const changed = settings.replaceAll(from, to);
      if (changed === settings) throw new Error(`deploy/nginx.conf says nothing like ${from} any more`);
      settings = changed;
    };
    replace('/tmp/', `${this.#folder}/`);
    replace(
      / +server fermata-1:3000 [^;]*;\n +server fermata-2:3000 [^;]*;/g,
      instances.map((address) => `server ${address};`).join('\n'),
    );
    replace(/resolver [^;]*;/g, '');
    replace('listen 8080;', `listen 127.0.0.1:${this.#plain};`);
    // An nginx before 1.25 knows HTTP/2 as a word of `listen` only.
    replace('http2 on;', '');
    replace('listen 8443 ssl;', `listen 127.0.0.1:${this.#tls} ssl http2;`);
    replace('/etc/nginx/tls', path.join(this.#folder, 'tls'));
    return settings;
  }

  #makeCertificate() {
    const folder = path.join(this.#folder, 'tls');
    mkdirSync(folder);
    // Started by root, the workers are somebody else.
    chmodSync(this.#folder, 0o755);
    const [key, certificate] = [path.join(folder, 'privkey.pem'), path.join(folder, 'fullchain.pem')];
    const kind = [
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-days',
      '2',
      '-subj',
      '/CN=localhost',
    ];
    execFileSync('openssl', ['req', '-x509', ...kind, '-keyout', key, '-out', certificate], {
      stdio: 'ignore',
    });
    chmodSync(key, 0o644);
  }

  async stop() {
    const child = this.#child;
    if (child !== undefined && child.exitCode === null && child.signalCode === null) {
      const exited = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGTERM');
      await exited;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
