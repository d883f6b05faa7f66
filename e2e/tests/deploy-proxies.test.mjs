// @ts-check
// Caddy with `deploy/Caddyfile`, and nginx with `deploy/nginx.conf`, in front of instances. Only the host, the ports and the addresses of
// the instances differ. Without a caddy program its tests are skipped, unless FERMATA_REQUIRE_SERVICES=1 forbids that. `proxy.test.mjs` has
// the errors and limits of nginx.

import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { Cluster } from '../harness/cluster.mjs';
import { EventStream } from '../harness/events.mjs';
import { calls } from '../harness/fake-openai.mjs';
import { NO_NGINX, Nginx } from '../harness/nginx.mjs';
import { freePort } from '../harness/ports.mjs';
import { BROWSER_TOOLS } from '../harness/scenario.mjs';
import { NO_SERVICES } from '../harness/services.mjs';
import { gate, until } from '../harness/until.mjs';

const ROOT = path.resolve(import.meta.dirname, '../..');
const CADDYFILE = path.join(ROOT, 'deploy/Caddyfile');
const HOST = 'chat.example.com';
const INSTANCES = '10.0.0.1:3000 10.0.0.2:3000';

const NO_CADDY = missing();
if (NO_CADDY !== undefined && process.env.FERMATA_REQUIRE_SERVICES === '1') throw new Error(NO_CADDY);

/** @returns {string | undefined} what is missing */
function missing() {
  try {
    execFileSync('caddy', ['version'], { stdio: 'ignore' });
    return undefined;
  } catch {
    return 'there is no caddy program';
  }
}

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

class Caddy {
  #folder = mkdtempSync(path.join(os.tmpdir(), 'fermata-caddy-'));
  #child;
  #port;
  log = '';

  /** @param {number} port @param {string[]} instances their addresses */
  constructor(port, instances) {
    this.#port = port;
    const settings = replaced(readFileSync(CADDYFILE, 'utf8'), [
      // Another Caddy of this machine may have the port for administration.
      ['\tgrace_period', '\tadmin off\n\tgrace_period'],
      [`${HOST} {`, `http://127.0.0.1:${port} {`],
      [INSTANCES, instances.join(' ')],
    ]);
    const file = path.join(this.#folder, 'Caddyfile');
    writeFileSync(file, settings);
    const env = { PATH: process.env.PATH, HOME: this.#folder };
    this.#child = spawn('caddy', ['run', '--adapter', 'caddyfile', '--config', file], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env,
    });
    running.add(this.#child);
    this.#child.once('exit', () => running.delete(this.#child));
    this.#child.stderr.on('data', (bytes) => {
      this.log += bytes;
    });
  }

  /** @param {...string} instances */
  static async start(...instances) {
    const caddy = new Caddy(await freePort(), instances);
    await until(
      () => {
        if (caddy.#child.exitCode !== null) throw new Error(`Caddy did not start:\n${caddy.log}`);
        return fetch(`${caddy.url}/metrics`).then(
          (response) => response.status === 404,
          () => false,
        );
      },
      () => `Caddy to answer:\n${caddy.log}`,
    );
    return caddy;
  }

  get url() {
    return `http://127.0.0.1:${this.#port}`;
  }

  async stop() {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const exited = new Promise((resolve) => this.#child.once('exit', resolve));
      this.#child.kill('SIGKILL');
      await exited;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** @param {string} text @param {[from: string, to: string][]} changes */
function replaced(text, changes) {
  for (const [from, to] of changes) {
    assert.ok(text.includes(from), `there is no ${from} in:\n${text}`);
    text = text.replace(from, to);
  }
  return text;
}

/** @param {string} url @param {object} body */
const post = (url, body) =>
  fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

/** @type {[name: string, missing: string | undefined, start: (...instances: string[]) => Promise<Caddy | Nginx>][]} */
const PROXIES = [
  ['Caddy', NO_CADDY, (...instances) => Caddy.start(...instances)],
  ['nginx', NO_NGINX, (...instances) => Nginx.start(...instances)],
];

for (const [name, missing, start] of PROXIES)
  test(
    `a parked call is answered on its open stream, and requests get through after a crash: ${name}`,
    { skip: missing ?? NO_SERVICES ?? false, timeout: 120_000 },
    async (context) => {
      const cluster = await Cluster.create({});
      const proxy = await start(...cluster.servers.map(({ url }) => new URL(url).host));
      try {
        const { opened, open } = gate();
        const locate = calls({ name: 'get_location', input: { accuracy: 'high' } });
        cluster.model.script(locate, async (pen) => {
          pen.says('You are ');
          await opened;
          pen.says('in Bern.');
        });
        const body = { id: 'a', messages: [{ role: 'user', content: 'where am I?' }], tools: BROWSER_TOOLS };
        const stream = await EventStream.open(`${proxy.url}/api/chat`, { body });
        cluster.streams.push(stream);
        const { toolCallId } = await stream.sees('tool-input-available');
        assert.ok(!stream.ended, stream.outline);

        const answer = { chatId: 'a', toolCallId, output: { city: 'Bern' } };
        const taken = await post(`${proxy.url}/chat/tool-result`, answer);
        assert.equal(taken.status, 200, await taken.text());
        await stream.sees('text-delta');
        assert.ok(!stream.ended, 'the first words arrive before the last ones exist');
        open();
        await stream.toEnd();
        assert.ok(stream.done, stream.outline);
        assert.deepEqual(cluster.model.verdict, []);

        await cluster.server(1).kill();
        for (let asked = 0; asked < 4; asked += 1)
          assert.equal((await fetch(`${proxy.url}/api/chat/a`)).status, 200);
      } catch (error) {
        context.diagnostic(`${cluster.outline}\n${proxy.log}`);
        throw error;
      } finally {
        await proxy.stop();
        await cluster.dispose();
      }
    },
  );

test(
  'the commands of the guide give nginx settings that it accepts',
  { skip: NO_NGINX ?? false },
  async () => {
    const guide = readFileSync(path.join(ROOT, 'docs/guide/deployment.md'), 'utf8');
    const [, typed] = /<!-- run: nginx -->\s*```sh\n([\s\S]*?)```/.exec(guide) ?? [];
    assert.ok(typed, 'the guide has no block marked <!-- run: nginx -->');
    const folder = mkdtempSync(path.join(os.tmpdir(), 'fermata-nginx-'));
    try {
      // Programs that stand for the rights of an administrator and for the service.
      const programs = path.join(folder, 'bin');
      mkdirSync(programs);
      const own = {
        sudo: 'exec "$@"',
        systemctl: `echo "$@" >${folder}/reloaded`,
        nginx: `exec ${execFileSync('which', ['nginx'], { encoding: 'utf8' }).trim()} -c ${folder}/nginx.conf "$@"`,
      };
      for (const [name, line] of Object.entries(own)) {
        writeFileSync(path.join(programs, name), `#!/bin/sh\n${line}\n`);
        chmodSync(path.join(programs, name), 0o755);
      }
      // nginx listens while it tests.
      const script = replaced(typed, [
        ['/etc/nginx/nginx.conf', `${folder}/nginx.conf`],
        ['/etc/nginx/instances.conf', `${folder}/instances.conf`],
        ['/run/nginx.pid', `${folder}/nginx.pid`],
        ['listen 80/', `listen 127.0.0.1:${await freePort()}/`],
        ['listen 443/', `listen 127.0.0.1:${await freePort()}/`],
      ]);
      const env = { PATH: `${programs}:${process.env.PATH}` };
      const { status, stderr } = spawnSync('sh', ['-e', '-c', script], { cwd: ROOT, env, encoding: 'utf8' });
      assert.equal(status, 0, stderr);
      assert.match(stderr, /test is successful/);
      assert.equal(readFileSync(path.join(folder, 'reloaded'), 'utf8'), 'reload nginx\n');
      const settings = readFileSync(path.join(folder, 'nginx.conf'), 'utf8');
      assert.ok(settings.includes(`\npid ${folder}/nginx.pid;\n`));
      assert.doesNotMatch(settings, /listen (8080|8443)/);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
);

test(
  'Caddy sends nothing more to an instance that is not ready, and believes no client about its address',
  { skip: NO_CADDY ?? false },
  async () => {
    const [ending, living] = await Promise.all([play(503), play(200)]);
    const caddy = await Caddy.start(ending.address, living.address);
    try {
      await until(() => ending.checks > 0 && living.checks > 0, 'both instances to be checked');
      await until(async () => {
        ending.requests.length = 0;
        for (let asked = 0; asked < 4; asked += 1) await fetch(`${caddy.url}/api/chats`);
        return ending.requests.length === 0;
      }, 'the requests to leave the instance that is ending');

      living.requests.length = 0;
      await fetch(`${caddy.url}/api/chats`, { headers: { 'x-forwarded-for': '10.0.0.1' } });
      assert.equal(living.requests[0]?.headers['x-forwarded-for'], '127.0.0.1');
    } finally {
      await caddy.stop();
      ending.close();
      living.close();
    }
  },
);

/** An instance that a test plays. @param {number} readiness the status of /readyz */
async function play(readiness) {
  const played = {
    address: '',
    checks: 0,
    /** @type {http.IncomingMessage[]} */
    requests: [],
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
  const server = http.createServer((request, response) => {
    if (request.url === '/readyz') played.checks += 1;
    else played.requests.push(request);
    response.writeHead(request.url === '/readyz' ? readiness : 200).end('{}');
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  played.address = `127.0.0.1:${port}`;
  return played;
}
