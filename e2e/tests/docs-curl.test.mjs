// @ts-check
// docs/guide/curl.md, as somebody types it: its blocks are typed one after the other into two terminals, against
// the built binary and its demo model, and what the page says that a block prints is looked for in what its
// terminal shows. Only the port differs.
//
// A block is typed when both terminals are free, but for one that answers what the other waits for: that is
// typed when something waits.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { Server } from '../harness/server.mjs';
import { until } from '../harness/until.mjs';

const PAGE = readFileSync(path.resolve(import.meta.dirname, '../../docs/guide/curl.md'), 'utf8');
const PRINTED_ADDRESS = 'http://127.0.0.1:3000';

/**
 * The blocks that are typed, in the order of the page, each with the lines that it is said to print.
 *
 * @param {...string} terminals
 */
function blocks(...terminals) {
  const pattern = /<!-- run: (\w+) -->\s*```sh\n([\s\S]*?)```(?:\s*```text\n([\s\S]*?)```)?/g;
  const all = [...PAGE.matchAll(pattern)].map(([, terminal = '', typed = '', printed = '']) => ({
    terminal,
    typed,
    printed: printed.split('\n').filter(Boolean),
  }));
  return all.filter(({ terminal }) => terminals.includes(terminal));
}

/**
 * A line of the page, with `…` for anything.
 *
 * @param {string} line
 */
function pattern(line) {
  const pieces = line.split('…').map((piece) => piece.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(pieces.join('.*'));
}

/** A shell that is typed into. */
class Terminal {
  shown = '';
  #typed = 0;
  #child;

  /** @param {string} folder where it is */
  constructor(folder) {
    this.#child = spawn('sh', { cwd: folder, stdio: ['pipe', 'pipe', 'pipe'] });
    for (const output of [this.#child.stdout, this.#child.stderr]) {
      output.on('data', (/** @type {Buffer} */ bytes) => {
        this.shown += bytes.toString('utf8');
      });
    }
  }

  get #mark() {
    return `terminal is free ${this.#typed}`;
  }

  /** @param {string} block */
  async type(block) {
    await this.isFree();
    this.shown = '';
    this.#typed += 1;
    this.#child.stdin.write(`${block}\nprintf '\\n%s\\n' '${this.#mark}'\n`);
  }

  async isFree() {
    if (this.#typed > 0) await this.shows(new RegExp(this.#mark));
  }

  /** @param {RegExp} what */
  async shows(what) {
    await until(
      () => what.test(this.shown),
      () => `${what} in: ${this.shown}`,
    );
  }

  close() {
    this.#child.stdin.end();
    this.#child.kill();
  }
}

/**
 * The chat where a block answers a call, or stops the run.
 *
 * @param {string} typed
 */
const answers = (typed) => /\$\(waiting (\w+)\)/.exec(typed)?.[1] ?? /chat\/(\w+)\/stop/.exec(typed)?.[1];

/**
 * @param {string} chat where something must wait before it is answered
 * @param {string} url
 */
async function isAnswerable(chat, url) {
  const waits = async () => {
    const response = await fetch(`${url}/api/chat/${chat}/pending`);
    return response.ok && (await response.text()).includes('toolCallId');
  };
  await until(waits, `something that waits in the chat ${chat}`);
}

/**
 * Types blocks, and looks for what they print.
 *
 * @param {ReturnType<typeof blocks>} toType
 * @param {string} url
 */
async function type(toType, url) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'fermata-curl-'));
  /** @type {Record<string, Terminal>} */
  const terminals = {};
  const areFree = () => Promise.all(Object.values(terminals).map((terminal) => terminal.isFree()));
  try {
    for (const { terminal, typed, printed } of toType) {
      const here = (terminals[terminal] ??= new Terminal(folder));
      const chat = answers(typed);
      await (chat === undefined ? areFree() : isAnswerable(chat, url));
      await here.type(typed.replaceAll(PRINTED_ADDRESS, url));
      for (const line of printed) await here.shows(pattern(line));
    }
    await areFree();
  } finally {
    for (const terminal of Object.values(terminals)) terminal.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

test('docs/guide/curl.md prints what it says', { timeout: 120_000 }, async (context) => {
  const server = await Server.start({});
  try {
    await type(blocks('first', 'second'), server.url);
    const record = async (/** @type {string} */ chat) =>
      (await fetch(`${server.url}/api/chat/${chat}`)).text();
    const notes = await record('notes');
    assert.match(notes, /I wrote down “buy milk”/, 'the first note was written');
    assert.match(
      notes,
      /`write_note` was denied[^"]*we have some/,
      'the second was denied, and the model told why',
    );
    assert.match(notes, /your version, “eggs”: buy ten eggs/, 'the third was edited');
    assert.match(notes, /I wrote down “buy tea”[\s\S]*I wrote down “buy coffee”/, 'the others were written');
    assert.match(await record('place'), /`get_location` gave: [^}]*Bern/);
    assert.match(await record('away'), /I wrote down “buy rice”/);
    assert.match(await record('stopped'), /"state":"output-error"/);
  } catch (error) {
    context.diagnostic(server.log);
    throw error;
  } finally {
    await server.discard();
  }
});

test('docs/guide/curl.md says how it is with tokens', { timeout: 60_000 }, async () => {
  const [, auth, tokens] = /`FERMATA_AUTH=(\w+)`\s+and\s+`FERMATA_TOKENS=([^`]+)`/.exec(PAGE) ?? [];
  assert.ok(auth && tokens, 'docs/guide/curl.md names the settings that its lines need');
  const server = await Server.start({ FERMATA_AUTH: auth, FERMATA_TOKENS: tokens });
  try {
    await type(blocks('tokens'), server.url);
  } finally {
    await server.discard();
  }
});
