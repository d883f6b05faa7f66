// @ts-check
// Each step of a release that needs no host: it is packed, installed in an empty folder without Rust, started, and used in Chromium.

import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import {
  createReadStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';
import { HERE, packRelease, ROOT } from './packed.mjs';
import { freePort } from '../harness/ports.mjs';
import { until } from '../harness/until.mjs';

const run = promisify(execFile);
/** @type {import('./packed.mjs').Release} */
let release;
/** @type {string} */
let work;

before(async () => {
  release = await packRelease();
  work = mkdtempSync(path.join(os.tmpdir(), 'fermata-rehearsal-'));
});

after(() => {
  release?.close();
  rmSync(work, { recursive: true, force: true });
});

/** An empty folder, and an environment that has Node.js but no Rust. @param {string} name */
function emptyFolder(name) {
  const folder = path.join(work, name);
  mkdirSync(path.join(folder, 'home'), { recursive: true });
  const env = {
    PATH: `${path.dirname(process.execPath)}:/usr/bin:/bin`,
    HOME: path.join(folder, 'home'),
    npm_config_registry: release.registry,
    npm_config_audit: 'false',
    npm_config_update_notifier: 'false',
  };
  return { folder, env };
}

/** A server that was started by a command, with its log. */
class Started {
  log = '';
  /** @type {number | string | null} */
  ended = null;
  #child;

  /** @param {string} command @param {string[]} args @param {{ folder: string, env: Record<string, string> }} where */
  constructor(command, args, { folder, env }) {
    this.#child = spawn(command, args, {
      cwd: folder,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    for (const output of [this.#child.stdout, this.#child.stderr])
      output.on('data', (/** @type {Buffer} */ bytes) => {
        this.log += bytes.toString('utf8');
      });
    this.#child.on('close', (code, signal) => {
      this.ended = signal ?? code;
    });
  }

  /** The address that it names. */
  async address() {
    const found = await until(
      () => {
        if (this.ended !== null) throw new Error(`it has ended: ${this.log}`);
        return /http:\/\/127\.0\.0\.1:\d+/.exec(this.log);
      },
      () => `an address in: ${this.log}`,
    );
    return found[0];
  }

  /** @param {NodeJS.Signals} signal */
  signal(signal) {
    this.#child.kill(signal);
  }

  async end() {
    if (this.ended === null) process.kill(-(this.#child.pid ?? 0), 'SIGTERM');
    await until(
      () => this.ended !== null,
      () => `its end: ${this.log}`,
    );
  }
}

/** The first command of the README. */
const [, COMMAND = ''] =
  /<!-- run: npm -->\s*```sh\n(.*)\n```/.exec(readFileSync(path.join(ROOT, 'README.md'), 'utf8')) ?? [];

/** Has a call parked and approved on the page. @param {string} address */
async function approveOnPage(address) {
  const browser = await chromium.launch({
    executablePath: process.env.FERMATA_CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox'],
  });
  try {
    const page = await browser.newPage({ locale: 'en' });
    await page.goto(address);
    await page.getByRole('textbox').fill('write a note: buy milk');
    await page.keyboard.press('Enter');
    await page
      .getByRole('button', { name: /^Approve/ })
      .first()
      .click();
    await page.getByText('I wrote down').first().waitFor();
  } finally {
    await browser.close();
  }
}

describe('a tag', () => {
  const check = (/** @type {string} */ tag) => run('node', [path.join(ROOT, 'release/version.mjs'), tag]);

  test('that fits gives the notes of its version alone', async () => {
    const { stdout } = await check(`v${release.version}`);
    assert.ok(stdout.length > 100 && !/^## /m.test(stdout), stdout);
  });

  test('of another version is refused, and each file that does not fit is named', async () => {
    const error = await check('v9.9.9').then(
      () => assert.fail('it was taken'),
      (/** @type {{ stderr: string }} */ error) => error.stderr,
    );
    for (const named of ['Cargo.toml', 'packages/fermata-server/package.json', 'CHANGELOG.md'])
      assert.ok(error.includes(named), error);
  });
});

describe('the npm packages', () => {
  test('the first command of the README starts the server in an empty folder, and a call is parked and approved in Chromium', async () => {
    const where = emptyFolder('npx');
    const began = performance.now();
    const server = new Started('sh', ['-c', COMMAND], {
      ...where,
      env: { ...where.env, npm_config_yes: 'true' },
    });
    try {
      await approveOnPage(await server.address());
      const seconds = (performance.now() - began) / 1000;
      console.log(`from an empty folder to an approved call: ${seconds.toFixed(1)} s`);
      assert.ok(existsSync(path.join(where.folder, 'fermata.db')), server.log);
    } finally {
      await server.end();
    }
  });

  test('an installed launcher passes on arguments, the exit status and signals', async () => {
    const where = emptyFolder('global');
    const options = { cwd: where.folder, env: { ...where.env, npm_config_prefix: where.folder } };
    await run('npm', ['install', '--global', 'fermata-server'], options);
    const launcher = path.join(where.folder, 'bin/fermata');
    const { stdout } = await run(launcher, ['--version'], options);
    assert.equal(stdout.trim(), `fermata ${release.version}`);
    const refused = await run(launcher, ['--no-such-option'], options).then(
      () => assert.fail('it was taken'),
      (/** @type {{ code: number, stderr: string }} */ error) => error,
    );
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /--no-such-option/);
    const server = new Started(launcher, [], where);
    await server.address();
    server.signal('SIGTERM');
    await until(
      () => server.ended !== null,
      () => `its end: ${server.log}`,
    );
    assert.equal(server.ended, 0, server.log);
    assert.match(server.log, /drained/);
  });

  test('without a binary for the platform the launcher says what to do', async () => {
    const where = emptyFolder('absent');
    const options = { cwd: where.folder, env: where.env };
    await run('npm', ['install', '--omit=optional', 'fermata-server'], options);
    const refused = await run(path.join(where.folder, 'node_modules/.bin/fermata-server'), options).then(
      () => assert.fail('it started'),
      (/** @type {{ code: number, stderr: string }} */ error) => error,
    );
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /is not installed.*without --omit=optional/s);
  });

  test('each can be published, and has what its page on the registry shows', async () => {
    const files = readdirSync(release.packages);
    for (const name of [
      `fermata-server-${HERE?.platform}`,
      'fermata-server',
      'fermata-chat',
      'create-fermata',
    ]) {
      const file = `${name}-${release.version}.tgz`;
      assert.ok(files.includes(file), files.join(' '));
      const packed = path.join(release.packages, file);
      await run('npm', ['publish', '--dry-run', '--ignore-scripts', packed], { cwd: work });
      const has = execFileSync('tar', ['-tzf', packed], { encoding: 'utf8' });
      const manifest = JSON.parse(
        execFileSync('tar', ['-xOzf', packed, 'package/package.json'], { encoding: 'utf8' }),
      );
      assert.ok(
        manifest.repository?.url && manifest.license && manifest.description && manifest.homepage,
        file,
      );
      assert.match(has, /package\/LICENSE-APACHE/);
      if (name !== `fermata-server-${HERE?.platform}`) assert.match(has, /package\/README\.md/);
      if (name === 'fermata-chat')
        for (const wanted of ['SKILL.md', 'docs/usechat.md', 'docs/assistant-ui.md', 'dist/index.js'])
          assert.ok(has.includes(`package/${wanted}\n`), `${file} has no ${wanted}`);
    }
  });
});

describe('the script that installs', () => {
  /** @type {http.Server} */
  let host;
  /** @type {Record<string, string>} */
  let env;
  /** The files that are served instead of those of the release. @type {Map<string, string>} */
  const replaced = new Map();

  before(async () => {
    host = http.createServer((request, response) => {
      const name = path.basename(request.url ?? '');
      const file = replaced.get(name) ?? path.join(release.folder, name);
      const isThere =
        /^\/(latest\/download|download\/v[^/]+)\/[^/]+$/.test(request.url ?? '') && existsSync(file);
      if (!isThere) response.writeHead(404).end();
      else createReadStream(file).pipe(response);
    });
    await new Promise((resolve) => host.listen(0, '127.0.0.1', () => resolve(undefined)));
    const { port } = /** @type {import('node:net').AddressInfo} */ (host.address());
    env = { ...emptyFolder('script').env, FERMATA_RELEASES: `http://127.0.0.1:${port}` };
  });

  after(() => {
    host.close();
    host.closeAllConnections();
  });

  const install = (/** @type {Record<string, string>} */ more = {}) =>
    run('sh', ['-c', 'curl -fsSL "$FERMATA_RELEASES/latest/download/install.sh" | sh'], {
      env: { ...env, ...more },
    });

  test('installs the newest version, or the one that is asked for, over an older one', async () => {
    const folder = path.join(work, 'script/bin');
    /** @type {Record<string, string>[]} */
    const choices = [{}, { FERMATA_VERSION: release.version }];
    for (const more of choices) {
      const { stdout } = await install({ FERMATA_INSTALL: folder, ...more });
      assert.match(stdout, new RegExp(`fermata ${release.version} is in ${folder}`));
      assert.match(
        execFileSync(path.join(folder, 'fermata'), ['--version'], { encoding: 'utf8' }),
        /^fermata /,
      );
    }
    assert.deepEqual(readdirSync(folder), ['fermata']);
  });

  test('installs nothing if the archive is not the one that was released', async () => {
    const archive = `fermata-${release.version}-${HERE?.target}.tar.gz`;
    const folder = path.join(work, 'script/tampered');
    const other = path.join(work, archive);
    writeFileSync(other, readFileSync(path.join(release.folder, archive)).subarray(0, -1));
    replaced.set(archive, other);
    try {
      const refused = await install({ FERMATA_INSTALL: folder }).then(
        () => assert.fail('it was installed'),
        (/** @type {{ stderr: string }} */ error) => error.stderr,
      );
      assert.match(refused, /is not the file that was released/);
      assert.ok(!existsSync(folder));
    } finally {
      replaced.clear();
    }
  });

  test('names the address of a version that is not there', async () => {
    const refused = await install({
      FERMATA_RELEASES: `${env.FERMATA_RELEASES}/none`,
      FERMATA_VERSION: '0.0.1',
    }).then(
      ({ stdout, stderr }) => stdout + stderr,
      (/** @type {{ stderr: string }} */ error) => error.stderr,
    );
    assert.match(refused, /404/);
  });
});

test('the Homebrew formula has the checksums of the release', () => {
  const sums = path.join(release.folder, 'SHA256SUMS');
  const formula = execFileSync('node', [path.join(ROOT, 'release/formula.mjs'), sums], { encoding: 'utf8' });
  const [sum = ''] = readFileSync(sums, 'utf8').split(' ');
  assert.match(sum, /^[0-9a-f]{64}$/);
  assert.ok(formula.includes(`sha256 "${sum}"`) && formula.includes(`version "${release.version}"`), formula);
});

test('the image has the binary, shows the demo, and serves no model without authentication', async () => {
  const folder = path.join(work, 'image');
  execFileSync(path.join(ROOT, 'release/image'), [release.folder, folder], { stdio: 'ignore' });
  const dockerfile = readFileSync(path.join(folder, 'Dockerfile'), 'utf8');
  const [, settings = ''] = /^ENV (.*)$/m.exec(dockerfile) ?? [];
  const binary = path.join(folder, process.arch === 'arm64' ? 'arm64' : 'amd64', 'fermata');
  const data = path.join(folder, 'data');
  const PORT = String(await freePort());
  const environment = Object.fromEntries(settings.split(' ').map((setting) => setting.split('=')));
  const env = { PATH: '/usr/bin:/bin', PORT, ...environment };
  const refused = await run(binary, [], { cwd: data, env: { ...env, OPENAI_API_KEY: 'sk-test' } }).then(
    () => assert.fail('it started'),
    (/** @type {{ stderr: string }} */ error) => error.stderr,
  );
  assert.match(refused, /there is more than the demo model.*Set auth to token/);
  const server = new Started(binary, [], { folder: data, env });
  try {
    const page = await until(
      () => fetch(`http://127.0.0.1:${PORT}/`).catch(() => undefined),
      () => server.log,
    );
    assert.match(await page.text(), /<title>Fermata/);
    await run(binary, ['health'], { cwd: data, env });
  } finally {
    await server.end();
  }
});

test('each action of the workflows is pinned to a commit', () => {
  const folder = path.join(ROOT, '.github/workflows');
  for (const file of readdirSync(folder))
    for (const [line, used = ''] of readFileSync(path.join(folder, file), 'utf8').matchAll(/uses: (\S+).*/g))
      assert.ok(used.startsWith('./') || /@[0-9a-f]{40}$/.test(used), `${file}: ${line}`);
});
