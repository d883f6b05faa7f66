// docs/guide/nextjs.md as it is printed, built by Next.js for production and started by it, in front of the built
// server.

import { spawn, execFileSync, type ChildProcess } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from '@playwright/test';
import { API_KEY, calls, FakeOpenAi, says } from '../../../e2e/harness/fake-openai.mjs';
import { Server } from '../../../e2e/harness/server.mjs';
import { gate } from '../../../e2e/harness/until.mjs';
import {
  COPY,
  installed,
  MODULES,
  PRINTED_ADDRESS,
  printedFiles,
  printedPackages,
  section,
  WEB_DEMO,
} from './example';
import { View } from './view';

const NEXT = path.join(MODULES, 'next/dist/bin/next');
const HANDLER = 'app/api/[...path]/route.ts';

/**
 * An application of the page's files, and of those that it says to copy. It is below web-demo/ because
 * Next.js looks for packages upwards.
 */
class Application {
  readonly folder: string;
  #process: ChildProcess | undefined;

  constructor(server: string, leftOut: string) {
    mkdirSync(path.join(WEB_DEMO, 'test-results'), { recursive: true });
    this.folder = mkdtempSync(path.join(WEB_DEMO, 'test-results/nextjs-'));
    const page = section('nextjs.md', undefined);
    for (const [name, version] of printedPackages(page)) installed(name, version);
    const chatPage = printedFiles(section('usechat.md', undefined)).get('src/ChatPage.tsx') ?? '';
    const files = new Map([
      ...printedFiles(page),
      ['app/ChatPage.tsx', chatPage],
      ['package.json', '{"private":true}'],
    ]);
    files.delete(leftOut);
    // New applications have Cache Components; those without a configuration do not.
    const config = files.get('next.config.mjs');
    if (config !== undefined)
      files.set(
        'next.config.mjs',
        config.replace('export default {', 'export default {\n  cacheComponents: true,'),
      );
    for (const [file, content] of files) {
      const at = path.join(this.folder, file);
      mkdirSync(path.dirname(at), { recursive: true });
      writeFileSync(at, content.replaceAll(PRINTED_ADDRESS, server));
    }
    for (const file of ['fermata.ts', 'fermata-react.ts'])
      cpSync(path.join(COPY, file), path.join(this.folder, 'app', file));
  }

  /** Builds it, which checks its types, too, and starts it; where it is to be seen. */
  async serve(): Promise<string> {
    const env = { ...process.env, NODE_ENV: 'production' as const, NEXT_TELEMETRY_DISABLED: '1' };
    const options = { cwd: this.folder, env, encoding: 'utf8' as const, stdio: 'pipe' as const };
    try {
      execFileSync(process.execPath, [NEXT, 'build'], options);
    } catch (error) {
      const { stdout, stderr } = error as { stdout: string; stderr: string };
      throw new Error(`next build: ${stdout}${stderr}`, { cause: error });
    }
    const child = spawn(process.execPath, [NEXT, 'start', '--hostname', '127.0.0.1', '--port', '0'], {
      cwd: this.folder,
      env,
    });
    this.#process = child;
    return new Promise((resolve, reject) => {
      let said = '';
      const read = (bytes: Buffer) => {
        said += bytes.toString();
        const url = /Local:\s+(\S+)[\s\S]*Ready/.exec(said)?.[1];
        if (url !== undefined) resolve(url);
      };
      child.stdout.on('data', read);
      child.stderr.on('data', read);
      child.on('exit', () => {
        reject(new Error(`next start: ${said}`));
      });
    });
  }

  async discard() {
    const child = this.#process;
    if (child?.exitCode === null) {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill();
      await ended;
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

for (const [way, leftOut] of [
  ['a rewrite', HANDLER],
  ['a route handler', 'next.config.mjs'],
] as const) {
  test.describe(`Next.js, with ${way}`, () => {
    test.describe.configure({ mode: 'default' });
    let model: FakeOpenAi | undefined;
    let server: Server | undefined;
    let application: Application | undefined;
    let url = '';

    test.beforeAll(async () => {
      test.setTimeout(180_000);
      model = await FakeOpenAi.start();
      server = await Server.start({
        OPENAI_BASE_URL: model.url,
        OPENAI_API_KEY: API_KEY,
        FERMATA_MODEL: 'test-model',
      });
      application = new Application(server.url, leftOut);
      url = await application.serve();
    });
    test.afterAll(async () => {
      await application?.discard();
      await server?.discard();
      await model?.stop();
    });

    test('text is shown while it is written, a reload goes on, and a call is approved', async ({ page }) => {
      if (model === undefined) throw new Error('the model did not start');
      const { opened, open } = gate();
      model.script(async (pen) => {
        pen.says('The first half, ');
        await opened;
        pen.says('the second half.');
      });
      const faults: string[] = [];
      page.on('pageerror', (error) => faults.push(String(error)));
      await page.goto(url);
      await expect(page).toHaveURL(/\/chat\/[0-9a-f-]{36}$/);
      const view = new View(page);
      await view.say('hello');
      await view.shows('The first half,');
      await page.reload();
      await view.shows('The first half,');
      open();
      await view.shows('The first half, the second half.');

      model.script(
        calls({ name: 'write_note', input: { title: 'milk', body: 'two litres' } }),
        says('It is written.'),
      );
      await view.say('write a note');
      await view.press('Approve', view.card('write_note'));
      await view.shows('It is written.');
      expect(await page.evaluate(async () => (await fetch('/api/chats')).status)).toBe(200);
      expect(faults).toEqual([]);
      expect(model.verdict).toEqual([]);
    });

    test('a message that is sent before the scripts have come is answered', async ({ page }) => {
      if (model === undefined) throw new Error('the model did not start');
      const { opened, open } = gate();
      await page.route('**/_next/static/**/*.js', async (route) => {
        await opened;
        await route.continue();
      });
      await page.goto(`${url}/chat/${crypto.randomUUID()}`, { waitUntil: 'domcontentloaded' });
      const view = new View(page);
      await view.say('hello');
      model.script(says('Good morning.'));
      open();
      await view.shows('Good morning.');
      expect(model.verdict).toEqual([]);
    });
  });
}
