// @ts-check
// nginx with the settings of `deploy/nginx.conf` and `deploy/instances.conf`, except that ports, folders and
// the names of the instances are others here. Without an nginx its tests are skipped, unless FERMATA_REQUIRE_SERVICES=1 says that they
// must not be.

import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { freePort } from './ports.mjs';
import { until } from './until.mjs';

const DEPLOY = path.resolve(import.meta.dirname, '../../deploy');

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
    await nginx.#start(instances, []);
    return nginx;
  }

  /**
   * The same for many clients at one address, which may do what would be too much for a single one.
   *
   * @param {string[]} instances
   */
  static async startForMany(...instances) {
    const nginx = new Nginx();
    await nginx.#start(instances, [
      ['rate=50r/s', 'rate=5000r/s'],
      ['burst=200', 'burst=20000'],
      ['limit_conn connections 256', 'limit_conn connections 4096'],
    ]);
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

  /** @param {string[]} instances @param {[from: string, to: string][]} limits others than those of the file */
  async #start(instances, limits) {
    this.#plain = await freePort();
    this.#tls = await freePort();
    const file = path.join(this.#folder, 'nginx.conf');
    writeFileSync(file, this.#settings(limits));
    writeFileSync(path.join(this.#folder, 'instances.conf'), withInstances(instances));
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

  /** The settings with this one's ports and folder. @param {[from: string, to: string][]} limits */
  #settings(limits) {
    return adapted('nginx.conf', [
      ...limits,
      ['/tmp/', `${this.#folder}/`],
      ['listen 8080;', `listen 127.0.0.1:${this.#plain};`],
      ['listen 8443 ', `listen 127.0.0.1:${this.#tls} `],
      ['/etc/nginx/tls', path.join(this.#folder, 'tls')],
    ]);
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

/** @param {string[]} instances */
const withInstances = (instances) =>
  adapted('instances.conf', [
    [
      / +server fermata-1:3000 resolve (.*;)\n +server fermata-2:3000 .*;/g,
      instances.map((address) => `    server ${address} $1`).join('\n'),
    ],
    [/resolver .*;/g, ''],
  ]);

/**
 * A file of `deploy/` with some words replaced.
 *
 * @param {string} name
 * @param {[from: string | RegExp, to: string][]} changes
 */
function adapted(name, changes) {
  let settings = readFileSync(path.join(DEPLOY, name), 'utf8');
  for (const [from, to] of changes) {
    const changed = settings.replaceAll(from, to);
    if (changed === settings) throw new Error(`deploy/${name} says nothing like ${from} any more`);
    settings = changed;
  }
  return settings;
}
