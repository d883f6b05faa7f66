// @ts-check
// The pages docs/guide/migrate-from-*.md, as somebody follows them: the files that a page prints are written into a
// folder, and its commands are run there, against the built binary and its demo model. What a page says that a
// command prints is looked for. Only the port differs.
//
// `settings` blocks are run before the server is started. A `first` block that a `second` one follows waits for it.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import ts from 'typescript';
import { freePort } from '../harness/ports.mjs';
import { binary, Server } from '../harness/server.mjs';
import { until } from '../harness/until.mjs';

const REPOSITORY = path.resolve(import.meta.dirname, '../..');
const PRINTED_ADDRESS = 'http://127.0.0.1:3000';

/** @param {string} name of a page */
const read = (name) => readFileSync(path.join(REPOSITORY, 'docs/guide', name), 'utf8');

/**
 * The files that a page prints, by their names.
 *
 * @param {string} page
 */
const files = (page) =>
  new Map(
    [...page.matchAll(/```\w+ title="([^"]+)"\n([\s\S]*?)```/g)].map(([, name = '', text = '']) => [
      name,
      text,
    ]),
  );

/**
 * The commands of a page, each with the lines that it is said to print.
 *
 * @param {string} page
 */
function blocks(page) {
  const pattern = /<!-- run: (\w+) -->\s*```sh\n([\s\S]*?)```(?:\s*```text\n([\s\S]*?)```)?/g;
  const all = [...page.matchAll(pattern)].map(([, terminal = '', typed = '', printed = '']) => ({
    terminal,
    typed,
    printed: printed.split('\n').filter(Boolean),
  }));
  assert.ok(all.length > 0, 'the page has no block marked <!-- run: … -->');
  for (const [index, { terminal }] of all.entries()) {
    assert.match(terminal, /^(settings|first|second)$/);
    if (terminal === 'second') assert.equal(all[index - 1]?.terminal, 'first', 'it answers the block above');
  }
  return all;
}

/**
 * Asserts that a text has a line of the page, with `…` for anything.
 *
 * @param {string} text
 * @param {string} line
 */
function shows(text, line) {
  const pieces = line.split('…').map((piece) => piece.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  assert.match(text, new RegExp(pieces.join('.*')));
}

/** The commands of a page, in the folder of a server. */
class Reader {
  /** What each of the first terminal's commands has printed. */
  /** @type {string[]} */
  first = [];
  #server;
  #page;

  /**
   * @param {Server} server that is not started yet
   * @param {string} page
   * @param {Iterable<[string, string]>} written the files of the folder
   */
  constructor(server, page, written) {
    this.#server = server;
    this.#page = page;
    for (const [name, text] of written) writeFileSync(path.join(server.folder, name), text);
    // What the tools import is looked for beside them, and `fermata` on the path.
    symlinkSync(path.join(REPOSITORY, 'e2e/node_modules'), path.join(server.folder, 'node_modules'));
    mkdirSync(path.join(server.folder, 'bin'));
    symlinkSync(binary(), path.join(server.folder, 'bin/fermata'));
  }

  async follow() {
    const all = blocks(this.#page);
    for (const { typed, printed } of all.filter(({ terminal }) => terminal === 'settings')) {
      const { output } = this.#type(typed);
      const shown = await output;
      for (const line of printed) shows(shown, line);
    }
    await this.#server.start();
    for (const [index, { terminal, typed }] of all.entries()) {
      if (terminal !== 'first') continue;
      const command = this.#type(typed);
      const next = all[index + 1];
      if (next?.terminal === 'second') {
        await until(
          () => command.shown().includes('tool-approval-request'),
          () => `an approval request in: ${command.shown()}`,
        );
        assert.doesNotMatch(command.shown(), /tool-output-available|\[DONE\]/);
        await this.#type(next.typed).output;
      }
      this.first.push(await command.output);
    }
  }

  /** @param {string} typed */
  #type(typed) {
    const { folder, url } = this.#server;
    const env = { ...process.env, PATH: `${path.join(folder, 'bin')}:${process.env.PATH}` };
    const child = spawn('sh', ['-e', '-c', typed.replaceAll(PRINTED_ADDRESS, url)], { cwd: folder, env });
    let shown = '';
    for (const output of [child.stdout, child.stderr]) {
      output.on('data', (/** @type {Buffer} */ bytes) => {
        shown += bytes.toString('utf8');
      });
    }
    /** @type {Promise<string>} */
    const output = new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (status) =>
        status === 0 ? resolve(shown) : reject(new Error(`${typed} ended with ${status}:\n${shown}`)),
      );
    });
    return { shown: () => shown, output };
  }
}

/**
 * Follows a page, and then looks at what has happened.
 *
 * @param {import('node:test').TestContext} context
 * @param {string} name of the page
 * @param {(files: Map<string, string>) => void} change of the files, such as another command for the tools
 * @param {(first: string[], server: Server) => Promise<void> | void} look
 */
async function follow(context, name, change, look) {
  const page = read(name);
  const written = files(page);
  for (const file of written.keys()) if (/\.tsx?$/.test(file)) written.delete(file);
  change(written);
  const server = new Server(await freePort(), {});
  try {
    const reader = new Reader(server, page, written);
    await reader.follow();
    await look(reader.first, server);
  } catch (error) {
    context.diagnostic(server.log);
    throw error;
  } finally {
    await server.discard();
  }
}

/**
 * The messages of a chat.
 *
 * @param {Server} server
 * @param {string} chat
 */
async function messages(server, chat) {
  const response = await fetch(`${server.url}/api/chat/${chat}`);
  const record = /** @type {{ messages: { id: string, parts: unknown[] }[] }} */ (await response.json());
  return record.messages;
}

const unchanged = () => {};

test('migrate-from-ai-sdk.md does what it says', { timeout: 120_000 }, async (context) => {
  await follow(context, 'migrate-from-ai-sdk.md', unchanged, async ([shop, old], server) => {
    assert.match(shop ?? '', /tool-output-available[^\n]*Cancelled [\s\S]*\[DONE\]/);
    assert.match(old ?? '', /\[DONE\]/);
    const kept = await messages(server, 'old-chat');
    assert.deepEqual(
      kept.slice(0, 3).map(({ id }) => id),
      ['m1', 'm2', 'm3'],
    );
    assert.match(JSON.stringify(kept[1]), /It was sent on Monday/);
    assert.match(JSON.stringify(kept[3]), /current_time/, 'the chat went on');
  });
});

/** @param {string[]} first */
function isResumed([shown = '']) {
  assert.match(shown, /tool-output-available[^\n]*Cancelled A7\.[\s\S]*\[DONE\]/, 'the edited input has run');
  assert.equal(shown.match(/"type":"start"/g)?.length, 1, 'it is one run');
}

test('migrate-from-langgraph.md does what it says', { timeout: 120_000 }, async (context) => {
  const change = (/** @type {Map<string, string>} */ written) => {
    // Python may be missing here, and the other page has the same tools in JavaScript.
    const settings = written.get('fermata.toml') ?? '';
    assert.match(settings, /command = "python3"\nargs = \["tools\.py"\]/);
    written.set('fermata.toml', settings.replace('python3', 'node').replace('tools.py', 'tools.mjs'));
    written.set('tools.mjs', files(read('migrate-from-ai-sdk.md')).get('tools.mjs') ?? '');
  };
  await follow(context, 'migrate-from-langgraph.md', change, isResumed);
});

/** @returns {string | false} why the Python tools cannot be run here */
function withoutPython() {
  try {
    execFileSync('python3', ['-c', 'import mcp.server.mcpserver'], { stdio: 'ignore' });
    return false;
  } catch {
    return 'the Python package mcp (2.x) is missing';
  }
}

test(
  'the Python tools of migrate-from-langgraph.md run',
  { skip: withoutPython(), timeout: 120_000 },
  (context) => follow(context, 'migrate-from-langgraph.md', unchanged, isResumed),
);

test('migrate-from-trigger.md does what it says', { timeout: 120_000 }, async (context) => {
  await follow(context, 'migrate-from-trigger.md', unchanged, async ([shown = ''], server) => {
    assert.match(shown, /tool-output-denied[\s\S]*\[DONE\]/);
    assert.doesNotMatch(shown, /tool-output-available/);
    const record = JSON.stringify(await messages(server, 'session-1'));
    assert.match(record, /was denied[^"]*we have some/, 'the model has learned the reason');
  });
});

/**
 * The complaints of TypeScript about a component of a page, as if it were beside the sources of the package.
 *
 * @param {string} component
 */
function complaints(component) {
  const folder = path.join(REPOSITORY, 'packages/fermata-chat');
  const file = path.join(folder, 'src/PageOfTheGuide.tsx');
  const text = component.replace('./fermata-react', './react');
  const { config } = ts.readConfigFile(path.join(folder, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, folder);
  const host = ts.createCompilerHost(options);
  const { fileExists, getSourceFile } = host;
  host.fileExists = (name) => name === file || fileExists(name);
  host.getSourceFile = (name, language, ...rest) =>
    name === file ? ts.createSourceFile(name, text, language) : getSourceFile(name, language, ...rest);
  const program = ts.createProgram([file], options, host);
  const found = ts.getPreEmitDiagnostics(program, program.getSourceFile(file));
  return found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}

for (const name of ['migrate-from-ai-sdk.md', 'migrate-from-trigger.md']) {
  test(`the component of ${name} fits the package`, () => {
    const component = files(read(name)).get('src/Chat.tsx');
    assert.ok(component, 'the page prints src/Chat.tsx');
    assert.deepEqual(complaints(component), []);
    const wrong = component.replace('useFermataChat({', 'useFermataChat({ noSuchOption: 1,');
    assert.equal(complaints(wrong).length, 1, 'TypeScript sees what is wrong');
  });
}
