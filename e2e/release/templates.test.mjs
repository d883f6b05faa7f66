// @ts-check
// `npm create fermata` as docs/guide/create.md has it: the commands of that page make each template from the packages of a release, check
// and build it, and start it. Chromium then approves a call, and nothing is left behind at the end.

import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';
import { freePort } from '../harness/ports.mjs';
import { until } from '../harness/until.mjs';
import { packRelease, ROOT } from './packed.mjs';

const run = promisify(execFile);
const PAGE = readFileSync(path.join(ROOT, 'docs/guide/create.md'), 'utf8');

/** The lines of each block of commands. */
const BLOCKS = [...PAGE.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = '']) =>
  block
    .trim()
    .split('\n')
    .map((line) => line.replace(/\s+#.*$/, '')),
);
const [CREATE = '', ENTER = '', INSTALL = '', DEV = ''] = BLOCKS[0] ?? [];
const SCRIPTS = BLOCKS[1] ?? [];
const WITH_PORTS = BLOCKS[2]?.[0] ?? '';
const TEMPLATES = [...PAGE.matchAll(/^\| `([a-z-]+)` \| .*(?:Vite|Next)/gm)].map(([, name = '']) => name);

/** No browser of the test is in this zone by itself. */
const ZONE = 'Pacific/Chatham';

/** @type {import('./packed.mjs').Release} */
let release;
/** @type {string} */
let work;
/** @type {Record<string, string>} */
let env;

before(async () => {
  release = await packRelease();
  work = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'fermata-templates-')));
  env = {
    PATH: `${path.dirname(process.execPath)}:/usr/bin:/bin`,
    HOME: os.homedir(),
    NEXT_TELEMETRY_DISABLED: '1',
    npm_config_registry: release.registry,
    npm_config_audit: 'false',
    npm_config_fund: 'false',
    npm_config_update_notifier: 'false',
    npm_config_yes: 'true',
  };
});

after(() => {
  release?.close();
  if (work !== undefined) rmSync(work, { recursive: true, force: true });
});

/** Runs a command of the page. @param {string} command @param {string} cwd @param {Record<string, string>} [more] */
async function sh(command, cwd, more = {}) {
  try {
    const { stdout, stderr } = await run('sh', ['-c', command], { cwd, env: { ...env, ...more } });
    return stdout + stderr;
  } catch (error) {
    const { stdout, stderr } = /** @type {{ stdout: string, stderr: string }} */ (error);
    throw new Error(`${command} failed:\n${stdout}${stderr}`, { cause: error });
  }
}

/** npm keeps a package that it has run, by its version. So each run of the tests has a cache of its own for this command. */
const create = (/** @type {string} */ command, /** @type {string} */ cwd) =>
  sh(command, cwd, { npm_config_cache: path.join(work, 'cache') });

/** An empty folder. @param {string} name */
function emptyFolder(name) {
  const folder = path.join(work, name);
  mkdirSync(folder);
  return folder;
}

/** The processes that work in a folder, or were started from it. @param {string} folder */
const processesIn = (folder) =>
  execFileSync('ps', ['-A', '-o', 'pid=,args='], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.includes(folder));

/** @param {number} port */
const isServed = (port) =>
  fetch(`http://localhost:${port}/`).then(
    () => true,
    () => false,
  );

/** `npm run dev` in a terminal of its own. */
class Dev {
  log = '';
  isOver = false;
  #child;

  /** @param {string} command @param {string} cwd @param {Record<string, string>} ports */
  constructor(command, cwd, ports) {
    this.#child = spawn('sh', ['-c', command], {
      cwd,
      env: { ...env, ...ports },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    for (const output of [this.#child.stdout, this.#child.stderr])
      output.on('data', (/** @type {Buffer} */ bytes) => {
        this.log += bytes.toString('utf8');
      });
    // All processes that write to it have ended.
    this.#child.on('close', () => {
      this.isOver = true;
    });
  }

  /** Waits until the page is served. @param {number} port */
  async serves(port) {
    await until(
      () => {
        if (this.isOver) throw new Error(`npm run dev has ended:\n${this.log}`);
        return isServed(port);
      },
      () => `the page at port ${port}:\n${this.log}`,
      120_000,
    );
  }

  /** Ctrl-C: a terminal sends the signal to each process of its group. */
  interrupt() {
    if (!this.isOver) process.kill(-(this.#child.pid ?? 0), 'SIGINT');
  }
}

/** Uses the page as a person does. @param {string} address */
async function useInBrowser(address) {
  const browser = await chromium.launch({
    executablePath: process.env.FERMATA_CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox'],
  });
  /** @type {string[]} */
  const faults = [];
  try {
    const page = await browser.newPage({ locale: 'en', timezoneId: ZONE });
    page.on('pageerror', (error) => faults.push(String(error)));
    page.on('console', (message) => {
      if (message.type() === 'error') faults.push(message.text());
    });
    page.on('response', (response) => {
      if (response.status() >= 400) faults.push(`${response.status()} ${response.url()}`);
    });
    page.on('requestfailed', (request) => {
      // A reload cuts off a font of Next's own developer tools.
      if (!request.url().includes('/__nextjs_'))
        faults.push(`${request.url()}: ${request.failure()?.errorText}`);
    });
    const say = async (/** @type {string} */ text) => {
      await page.getByRole('textbox', { name: 'Message' }).fill(text);
      await page.getByRole('button', { name: 'Send', exact: true }).click();
    };
    const shown = [page.getByText('I wrote down “buy milk”'), page.getByText(`gave: ${ZONE}`)];

    await page.goto(address);
    await say('write a note: buy milk');
    const card = page.getByRole('article', { name: 'Tool call write_note' });
    await card.getByText('Waiting for you').waitFor();
    await card.getByRole('button', { name: 'Approve', exact: true }).click();
    await shown[0]?.waitFor();
    await say('use get_time_zone');
    await shown[1]?.waitFor();

    const chat = page.url();
    assert.notEqual(new URL(chat).href, new URL(address).href, 'the chat has no address of its own');
    // A reload cuts off a stream that is still open, and the page would report that.
    await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' });
    await page.reload();
    for (const text of shown) await text.waitFor();

    await page.getByRole('button', { name: 'Chats' }).click();
    await page.getByRole('navigation', { name: 'Chats' }).getByText('write a note: buy milk').waitFor();
    assert.deepEqual(faults, []);
  } finally {
    await browser.close();
  }
}

test('the page has the commands and the templates that are tested', async () => {
  assert.match(CREATE, /^npm create fermata my-app -- --template vite-usechat$/);
  assert.deepEqual([ENTER, INSTALL, DEV], ['cd my-app', 'npm install', 'npm run dev']);
  assert.deepEqual(SCRIPTS, ['npm run dev', 'npm run server', 'npm run typecheck', 'npm run build']);
  assert.match(WITH_PORTS, /^PORT=8080 FERMATA_PORT=8081 npm run dev$/);
});

for (const template of TEMPLATES)
  test(`${template} is created, checked, built and used, and leaves no process behind`, async () => {
    const above = emptyFolder(template);
    const said = await create(CREATE.replace('vite-usechat', template), above);
    for (const command of [ENTER, INSTALL, DEV]) assert.ok(said.includes(`  ${command}\n`), said);
    const folder = path.join(above, ENTER.replace('cd ', ''));
    assert.equal(JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')).name, 'my-app');
    assert.ok(existsSync(path.join(folder, '.gitignore')) && !existsSync(path.join(folder, '_gitignore')));

    await sh(INSTALL, folder);
    for (const script of SCRIPTS.filter((script) => /typecheck|build/.test(script))) await sh(script, folder);

    const [port, serverPort] = [await freePort(), await freePort()];
    const command = WITH_PORTS.replace('8080', String(port)).replace('8081', String(serverPort));
    const dev = new Dev(command, folder, {});
    try {
      await dev.serves(port);
      await useInBrowser(`http://localhost:${port}/`);
      assert.ok(existsSync(path.join(folder, 'fermata.db')), dev.log);
    } catch (error) {
      throw new Error(`${template}:\n${dev.log}`, { cause: error });
    } finally {
      dev.interrupt();
      await until(
        () => dev.isOver && processesIn(folder).length === 0,
        () => `the end of the processes:\n${processesIn(folder).join('\n')}\n${dev.log}`,
      );
    }
    assert.deepEqual(await Promise.all([port, serverPort].map(isServed)), [false, false]);
    assert.match(dev.log, /drained/);
  });

test('if the port of the server is taken, the page does not start', async () => {
  // The first template was installed by its own test.
  const folder = path.join(work, TEMPLATES[0] ?? '', 'my-app');
  const [port, serverPort] = [await freePort(), await freePort()];
  const first = new Dev(`FERMATA_PORT=${serverPort} ${SCRIPTS[1]}`, folder, {});
  try {
    await first.serves(serverPort);
    const refused = await sh(`PORT=${port} FERMATA_PORT=${serverPort} ${DEV}`, folder).then(
      () => assert.fail('it started'),
      (/** @type {Error} */ error) => error.message,
    );
    assert.match(refused, new RegExp(`cannot listen on 127\\.0\\.0\\.1:${serverPort}`));
    assert.equal(await isServed(port), false);
  } finally {
    first.interrupt();
    await until(
      () => first.isOver && processesIn(folder).length === 0,
      () => `the end of the server:\n${first.log}`,
    );
  }
});

describe('npm create fermata refuses', () => {
  const refusal = async (/** @type {string} */ command, /** @type {string} */ folder) =>
    create(command, folder).then(
      () => assert.fail('it was created'),
      (/** @type {Error} */ error) => error.message,
    );

  test('a template that is not there, and names the templates of the page', async () => {
    const folder = emptyFolder('unknown');
    const said = await refusal('npm create fermata my-app -- --template svelte', folder);
    assert.ok(said.includes(`no template "svelte". The templates are: ${TEMPLATES.join(', ')}.`), said);
    assert.ok(!existsSync(path.join(folder, 'my-app')));
  });

  test('a folder that is not empty, and leaves it as it is', async () => {
    const folder = emptyFolder('full');
    writeFileSync(path.join(emptyFolder('full/my-app'), 'package.json'), '{}');
    assert.match(await refusal('npm create fermata my-app', folder), /my-app is not empty/);
    assert.equal(readFileSync(path.join(folder, 'my-app/package.json'), 'utf8'), '{}');
  });

  test('a name that npm does not take', async () => {
    const said = await refusal("npm create fermata 'My App'", emptyFolder('name'));
    assert.match(said, /"My App" is not a valid npm package name/);
  });

  test('to ask where nobody can answer', async () => {
    assert.match(await refusal('npm create fermata', emptyFolder('nobody')), /Name a folder/);
  });
});

test('without --template and without a terminal, it is vite-usechat, and the output says so', async () => {
  const folder = emptyFolder('default');
  const said = await create('npm create fermata my-app', folder);
  assert.match(said, /No --template is given, so it is vite-usechat\./);
  assert.ok(existsSync(path.join(folder, 'my-app/vite.config.ts')));
});

test('at a terminal, it asks for the folder and the template, and again after an answer that it cannot use', async (t) => {
  if (process.platform !== 'linux') return t.skip('the program `script` has other options here');
  const folder = emptyFolder('asked');
  const terminal = spawn('script', ['-qefc', 'npm create fermata', '/dev/null'], {
    cwd: folder,
    env: { ...env, npm_config_cache: path.join(work, 'cache') },
  });
  let shown = '';
  /** @type {number | null} */
  let status = null;
  terminal.stdout.on('data', (/** @type {Buffer} */ bytes) => {
    shown += bytes.toString('utf8');
  });
  terminal.on('close', (code) => {
    status = code;
  });
  let seen = 0;
  /** Waits for a question that is new, and answers it. */
  const answer = async (/** @type {string} */ question, /** @type {string} */ line) => {
    await until(
      () => shown.includes(`${question} (`, seen),
      () => `the question ${question}:\n${shown}`,
    );
    seen = shown.length;
    terminal.stdin.write(`${line}\r`);
  };
  await answer('Folder', 'My App');
  await answer('Folder', 'my-chat');
  await answer('Template', 'nextjs');
  await until(
    () => status !== null,
    () => `its end:\n${shown}`,
  );
  assert.equal(status, 0, shown);
  assert.match(shown, /"My App" is not a valid npm package name/);
  assert.ok(existsSync(path.join(folder, 'my-chat/next.config.ts')), shown);
});
