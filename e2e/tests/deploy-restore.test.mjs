// @ts-check
// A backup of PostgreSQL that is restored as `docs/guide/deployment.md` says: the blocks marked `<!-- run: dump -->` and
// `<!-- run: restore -->` are run as they stand, by `sh`. Only the names of the databases differ, and the environment names the server.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { EventStream } from '../harness/events.mjs';
import { API_KEY, FakeOpenAi, calls, says } from '../harness/fake-openai.mjs';
import { freePort } from '../harness/ports.mjs';
import { BROWSER_TOOLS } from '../harness/scenario.mjs';
import { Server } from '../harness/server.mjs';
import { NO_SERVICES, Postgres } from '../harness/services.mjs';
import { until } from '../harness/until.mjs';

const guide = readFileSync(path.resolve(import.meta.dirname, '../../docs/guide/deployment.md'), 'utf8');

const NO_PROGRAMS = missing();
if (NO_PROGRAMS !== undefined && process.env.FERMATA_REQUIRE_SERVICES === '1') throw new Error(NO_PROGRAMS);

/** @returns {string | undefined} what is missing */
function missing() {
  for (const program of ['pg_dump', 'pg_restore', 'createdb']) {
    try {
      execFileSync(program, ['--version'], { stdio: 'ignore' });
    } catch {
      return `there is no ${program} program`;
    }
  }
  return undefined;
}

/** @param {string} label */
function block(label) {
  const [, found] = new RegExp(`<!-- run: ${label} -->\\s*\`\`\`sh\\n([\\s\\S]*?)\`\`\``).exec(guide) ?? [];
  assert.ok(found, `the guide has no block marked <!-- run: ${label} -->`);
  return found;
}

/** The variables with which the programs of PostgreSQL find a server. @param {string} url */
function serverOf(url) {
  const { hostname, port, username, password } = new URL(url);
  return {
    PGHOST: hostname,
    PGPORT: port || '5432',
    PGUSER: username,
    ...(password && { PGPASSWORD: decodeURIComponent(password) }),
  };
}

test(
  'a call that waited in a backup of PostgreSQL can be answered after the backup was restored',
  { skip: NO_SERVICES ?? NO_PROGRAMS ?? false, timeout: 120_000 },
  async (context) => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'fermata-restore-'));
    const database = await Postgres.create();
    const restored = new Postgres(`${database.name}_restored`);
    const model = await FakeOpenAi.start();
    const api = { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: API_KEY, FERMATA_MODEL: 'test-model' };
    const server = new Server(await freePort(), { ...api, DATABASE_URL: database.url });
    const again = new Server(await freePort(), { ...api, DATABASE_URL: restored.url });
    const type = (/** @type {string} */ label) => {
      const script = block(label).replace(/\bfermata(?=_restored\b|$)/gm, database.name);
      assert.ok(script.includes(database.name), script);
      const env = { PATH: process.env.PATH, ...serverOf(database.url) };
      execFileSync('sh', ['-e', '-c', script], { cwd: folder, env, stdio: 'pipe' });
    };
    const answers = (/** @type {object} */ answer) =>
      fetch(`${again.url}/chat/tool-result`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ chatId: 'a', ...answer }),
      });
    try {
      await server.start();
      model.script(calls({ name: 'get_location', input: { accuracy: 'high' } }), says('You are in Bern.'));
      const body = { id: 'a', messages: [{ role: 'user', content: 'where am I?' }], tools: BROWSER_TOOLS };
      const stream = await EventStream.open(`${server.url}/api/chat`, { body });
      const { toolCallId } = await stream.sees('tool-input-available');
      type('dump');
      await server.kill();

      type('restore');
      await again.start();
      const answered = await until(
        async () => {
          const tried = await answers({ toolCallId, output: { city: 'Bern' } });
          return tried.status !== 503 && tried;
        },
        () => `the answer to be taken:\n${again.log}`,
      );
      assert.equal(answered.status, 200, await answered.text());
      await until(
        async () => (await (await fetch(`${again.url}/api/chat/a`)).text()).includes('You are in Bern.'),
        () => `the run to continue:\n${again.log}`,
      );
      assert.deepEqual(model.verdict, []);
    } catch (error) {
      context.diagnostic(`${server.log}\n${again.log}`);
      throw error;
    } finally {
      await Promise.all([server.discard(), again.discard(), model.stop()]);
      await database.drop();
      await restored.drop();
      rmSync(folder, { recursive: true, force: true });
    }
  },
);
