// @ts-check
// The README's start, as a new user types it: the blocks marked `<!-- run: server -->`, `<!-- run: first -->`
// and `<!-- run: second -->` are run as they stand, by `sh`, against the built binary and its demo model. Two
// things may differ from what a user types: the server is the binary that is already built, and, where port
// 3000 is taken, the port.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { test } from 'node:test';
import { claimPort, freePort } from '../harness/ports.mjs';
import { Server } from '../harness/server.mjs';
import { until } from '../harness/until.mjs';

const PORT = 3000;
const readme = () => readFileSync(path.resolve(import.meta.dirname, '../../README.md'), 'utf8');

/**
 * The `sh` blocks with a label, put together in the order of the README: one terminal keeps its variables.
 *
 * @param {string} label
 */
function typedInto(label) {
  const pattern = new RegExp(`<!-- run: ${label} -->\\s*\`\`\`sh\\n([\\s\\S]*?)\`\`\``, 'g');
  const blocks = [...readme().matchAll(pattern)].map(([, block]) => block ?? '');
  assert.ok(blocks.length > 0, `README.md has no block marked <!-- run: ${label} -->`);
  return blocks.join('');
}

/** @returns {Promise<boolean>} whether the README's port can be listened on */
async function isFree() {
  return new Promise((resolve) => {
    const listener = net.createServer();
    listener.once('error', () => resolve(false));
    listener.listen(PORT, '127.0.0.1', () => listener.close(() => resolve(true)));
  });
}

/** A terminal with a script typed into it. */
class Terminal {
  shown = '';
  complaints = '';
  /** @type {number | null} */
  status = null;
  #child;

  /** @param {string} script */
  constructor(script) {
    this.#child = spawn('sh', ['-e', '-c', script], { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child.stdout.on('data', (/** @type {Buffer} */ bytes) => {
      this.shown += bytes.toString('utf8');
    });
    this.#child.stderr.on('data', (/** @type {Buffer} */ bytes) => {
      this.complaints += bytes.toString('utf8');
    });
    this.#child.on('close', (status) => {
      this.status = status ?? -1;
    });
  }

  /** @param {string} words */
  async shows(words) {
    await until(
      () => {
        if (this.status !== null && !this.shown.includes(words))
          throw new Error(`it ended before ${words}: ${this.all}`);
        return this.shown.includes(words);
      },
      () => `${words} in: ${this.all}`,
    );
  }

  async ends() {
    await until(
      () => this.status !== null,
      () => `the end of: ${this.all}`,
    );
    assert.equal(this.status, 0, this.all);
  }

  close() {
    this.#child.kill();
  }

  get all() {
    return `${this.shown}\n${this.complaints}`;
  }
}

test('the README starts the server with a target that the Makefile has', () => {
  const command = typedInto('server').trim().split('\n').at(-1);
  assert.equal(command, 'make run');
  assert.match(readFileSync(path.resolve(import.meta.dirname, '../../Makefile'), 'utf8'), /^run:/m);
});

test(
  'the README shows a parked call answered from a second terminal',
  { timeout: 90_000 },
  async (context) => {
    await claimPort(PORT);
    const port = (await isFree()) ? PORT : await freePort();
    const type = (/** @type {string} */ label) =>
      new Terminal(typedInto(label).replaceAll(`:${PORT}`, `:${port}`));
    const server = await Server.start({}, port);
    const first = type('first');
    try {
      await first.shows('tool-approval-request');
      assert.equal(first.status, null, 'the first terminal stays open');
      assert.doesNotMatch(first.shown, /tool-output-available/);
      const second = type('second');
      await second.ends();
      assert.match(second.shown, /awaiting_approval/, 'the second terminal shows what waits');
      assert.match(second.shown, /"waitingFor"/, 'the second terminal shows that the answer was taken');
      await first.ends();
      assert.match(
        first.shown,
        /tool-output-available[\s\S]*text-delta[\s\S]*\[DONE\]/,
        'the first terminal goes on',
      );
    } catch (error) {
      context.diagnostic(server.log);
      throw error;
    } finally {
      first.close();
      await server.discard();
    }
  },
);
