// @ts-check
// The MCP servers for mcp-servers.mjs. They need no credentials. Each row has a call whose result nobody but the
// server can know.

import { execFileSync } from 'node:child_process';
import { createHash, randomInt } from 'node:crypto';
import { accessSync, constants, writeFileSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { freePort } from '../harness/ports.mjs';
import { install, npm, pypi } from './packages.mjs';

/** @typedef {import('../harness/mcp.mjs').Place} Place */
/** @typedef {import('./packages.mjs').Package} Package */

const FASTMCP = path.join(import.meta.dirname, 'fastmcp-server.py');

/**
 * The means to set a row up.
 *
 * @typedef {object} Means
 * @property {Place} place
 * @property {string} secret a random word
 * @property {number} port of a server over HTTP
 * @property {(name: string) => string} program the path of a program of the package
 */
/**
 * @typedef {object} Setup
 * @property {string[]} command
 * @property {Record<string, string>} [env]
 * @property {string[]} [settings] lines of the server's table
 * @property {unknown} input of the call
 * @property {string} shows a text of the result
 */
/**
 * @typedef {object} Row
 * @property {Package} of
 * @property {string} [variant] the difference to other rows of the package
 * @property {boolean} [overHttp]
 * @property {string} tool that the model calls
 * @property {(means: Means) => Setup | Promise<Setup>} setUp
 */

// === the servers ===

const EVERYTHING = npm('@modelcontextprotocol/server-everything', '2026.8.31');
const MEMORY = npm('@modelcontextprotocol/server-memory', '2026.8.31');
const CONTEXT7 = npm('@upstash/context7-mcp', '4.1.1');
const TIME = pypi('mcp-server-time', '2026.10.19');
const NEW_FASTMCP = pypi('fastmcp', '4.2.3');
const OLD_FASTMCP = pypi('mcp', '1.30.0');

/** @type {Row[]} */
export const ROWS = [
  {
    of: EVERYTHING,
    tool: 'get-env',
    setUp: ({ program, secret }) => ({
      command: [program('mcp-server-everything'), 'stdio'],
      env: { JUDGE: secret },
      input: {},
      shows: secret,
    }),
  },
  {
    of: EVERYTHING,
    overHttp: true,
    tool: 'get-env',
    setUp: ({ program, secret, port }) => ({
      command: [program('mcp-server-everything'), 'streamableHttp'],
      env: { JUDGE: secret, PORT: String(port) },
      input: {},
      shows: secret,
    }),
  },
  {
    of: npm('@modelcontextprotocol/server-filesystem', '2026.8.31'),
    tool: 'read_text_file',
    setUp: ({ program, secret, place }) => ({
      command: [program('mcp-server-filesystem'), place.folder],
      input: { path: written(place, 'note.txt', secret) },
      shows: secret,
    }),
  },
  {
    of: MEMORY,
    tool: 'search_nodes',
    setUp: ({ program, secret, place }) => ({
      command: [program('mcp-server-memory')],
      env: { MEMORY_FILE_PATH: rememberedBy(place, secret) },
      input: { query: 'box' },
      shows: secret,
    }),
  },
  {
    of: MEMORY,
    variant: 'through supergateway',
    overHttp: true,
    tool: 'search_nodes',
    setUp: async ({ program, secret, place, port }) => {
      const gateway = await install(npm('supergateway', '4.0.0'));
      const options = ['--outputTransport', 'streamableHttp', '--stateful', '--port', String(port)];
      return {
        command: [path.join(gateway, 'supergateway'), '--stdio', program('mcp-server-memory'), ...options],
        env: { MEMORY_FILE_PATH: rememberedBy(place, secret) },
        input: { query: 'box' },
        shows: secret,
      };
    },
  },
  {
    of: npm('@modelcontextprotocol/server-sequential-thinking', '2026.8.31'),
    tool: 'sequentialthinking',
    setUp: ({ program }) => ({
      command: [program('mcp-server-sequential-thinking')],
      input: { thought: 'First things first.', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 },
      shows: 'thoughtHistoryLength',
    }),
  },
  {
    of: npm('@playwright/mcp', '0.0.83'),
    tool: 'browser_navigate',
    setUp: async ({ program, secret, place }) => {
      const options = ['--headless', '--no-sandbox', '--isolated', '--executable-path', chromium()];
      const page = await pageWith(place, secret);
      return {
        command: [program('playwright-mcp'), ...options],
        input: { url: page.url },
        shows: page.shows,
      };
    },
  },
  {
    of: npm('chrome-devtools-mcp', '1.11.0'),
    tool: 'evaluate_script',
    setUp: ({ program }) => {
      const options = [
        '--headless',
        '--isolated',
        '--executablePath',
        chromium(),
        '--chromeArg=--no-sandbox',
        '--no-usage-statistics',
      ];
      const { text, result } = product();
      return {
        command: [program('chrome-devtools-mcp'), ...options],
        input: { pageId: 1, function: `() => ${text}` },
        shows: result,
      };
    },
  },
  {
    of: CONTEXT7,
    tool: 'resolve-library-id',
    setUp: ({ program }) => searchFor('next.js', [program('context7-mcp')]),
  },
  {
    of: CONTEXT7,
    overHttp: true,
    tool: 'resolve-library-id',
    setUp: ({ program, port }) =>
      searchFor('next.js', [program('context7-mcp'), '--transport', 'http', '--port', String(port)]),
  },
  {
    of: npm('@wonderwhy-er/desktop-commander', '0.2.52'),
    tool: 'read_file',
    setUp: ({ program, secret, place }) => ({
      command: [program('desktop-commander')],
      input: { path: written(place, 'note.txt', secret) },
      shows: secret,
    }),
  },
  {
    of: npm('mcp-server-commands', '0.5.0'),
    tool: 'run_command',
    setUp: ({ program }) => {
      const { text, result } = product();
      return {
        command: [program('mcp-server-commands')],
        input: { command: `echo $((${text}))` },
        shows: result,
      };
    },
  },
  {
    of: npm('@eslint/mcp', '0.3.13'),
    tool: 'lint-files',
    setUp: ({ program, secret, place }) => {
      written(place, 'eslint.config.js', 'export default [{ rules: { "no-unused-vars": "error" } }];');
      written(place, 'package.json', '{ "type": "module" }');
      const word = `a${secret.replaceAll('-', '')}`;
      return {
        command: [program('mcp')],
        input: { filePaths: [written(place, 'linted.js', `const ${word} = 1;\n`)] },
        shows: `'${word}' is assigned a value but never used`,
      };
    },
  },
  {
    of: pypi('mcp-server-git', '2026.10.19'),
    tool: 'git_log',
    setUp: ({ program, secret, place }) => {
      const git = (/** @type {string[]} */ ...args) => execFileSync('git', ['-C', place.folder, ...args]);
      git('init', '--quiet');
      git('-c', 'user.name=e2e', '-c', 'user.email=e2e@localhost', 'commit', '-qm', secret, '--allow-empty');
      return {
        command: [program('mcp-server-git'), '--repository', place.folder],
        input: { repo_path: place.folder },
        shows: secret,
      };
    },
  },
  { of: TIME, tool: 'get_current_time', setUp: ({ program }) => timeIn([program('mcp-server-time')]) },
  {
    of: TIME,
    variant: 'after 12 s, as with uvx',
    tool: 'get_current_time',
    setUp: ({ program }) => timeIn(['sh', '-c', 'sleep 12; exec "$0"', program('mcp-server-time')]),
  },
  {
    of: pypi('mcp-server-fetch', '2026.10.24'),
    tool: 'fetch',
    setUp: async ({ program, secret, place }) => ({
      command: [program('mcp-server-fetch'), '--ignore-robots-txt', '--allow-private-ips'],
      input: { url: (await pageWith(place, secret)).url },
      shows: secret,
    }),
  },
  {
    of: pypi('mcp-server-sqlite', '2025.4.25', 'mcp==1.30.0'),
    tool: 'read_query',
    setUp: ({ program, place }) => {
      const { text, result } = product();
      return {
        command: [program('mcp-server-sqlite'), '--db-path', path.join(place.folder, 'judged.db')],
        input: { query: `select ${text} as product` },
        shows: result,
      };
    },
  },
  {
    of: pypi('mcp-server-motherduck', '1.1.0'),
    tool: 'execute_query',
    setUp: ({ program }) => {
      const { text, result } = product();
      return {
        command: [program('mcp-server-motherduck'), '--db-path', ':memory:', '--read-write'],
        input: { sql: `select ${text} as product` },
        shows: result,
      };
    },
  },
  {
    of: pypi('mcp-server-calculator', '0.2.1'),
    tool: 'calculate',
    setUp: ({ program }) => {
      const { text, result } = product();
      return { command: [program('mcp-server-calculator')], input: { expression: text }, shows: result };
    },
  },
  fastmcp(NEW_FASTMCP),
  fastmcp(NEW_FASTMCP, 'with sessions', {}, ['protocol = "2025-11-25"']),
  fastmcp(NEW_FASTMCP, 'by default', {}),
  fastmcp(NEW_FASTMCP, 'without sessions', { stateless_http: true }),
  fastmcp(NEW_FASTMCP, 'JSON replies', { json_response: true }),
  fastmcp(OLD_FASTMCP),
  fastmcp(OLD_FASTMCP, 'with sessions', {}),
  fastmcp(OLD_FASTMCP, 'without sessions', { stateless_http: true }),
  fastmcp(OLD_FASTMCP, 'JSON replies', { json_response: true }),
];

/**
 * A server made with FastMCP.
 *
 * @param {Package} of
 * @param {string} [variant]
 * @param {object} [options] of the transport over HTTP. Without them the server speaks over stdio
 * @param {string[]} [settings]
 * @returns {Row}
 */
function fastmcp(of, variant, options, settings = []) {
  return {
    of,
    ...(variant === undefined ? {} : { variant }),
    overHttp: options !== undefined,
    tool: 'fingerprint',
    setUp: ({ program, secret, port }) => ({
      command: [
        program('python'),
        FASTMCP,
        JSON.stringify(options === undefined ? {} : { ...options, port }),
      ],
      settings,
      input: { text: secret },
      shows: createHash('sha256').update(secret).digest('hex'),
    }),
  };
}

/** @param {string[]} command @returns {Setup} */
function timeIn(command) {
  const timeZone = 'Pacific/Auckland';
  const day = new Intl.DateTimeFormat('sv-SE', { timeZone }).format(new Date());
  return { command, input: { timezone: timeZone }, shows: `${day}T` };
}

/**
 * A search in Context7. Without a network, its result is an error of the server.
 *
 * @param {string} libraryName
 * @param {string[]} command
 * @returns {Promise<Setup>}
 */
async function searchFor(libraryName, command) {
  const isOnline = await fetch('https://context7.com', { signal: AbortSignal.timeout(5000) }).then(
    () => true,
    () => false,
  );
  const shows = isOnline ? `/${libraryName}` : 'Error searching libraries';
  return { command, input: { libraryName, query: 'routing' }, shows };
}

/** A random multiplication. Its result fits into 32 bits. */
function product() {
  const [one, other] = [randomInt(10_000, 40_000), randomInt(10_000, 40_000)];
  return { text: `${one} * ${other}`, result: String(one * other) };
}

/** @param {Place} place @param {string} name @param {string} text */
function written(place, name, text) {
  const file = path.join(place.folder, name);
  writeFileSync(file, text);
  return file;
}

/** @param {Place} place @param {string} fact */
const rememberedBy = (place, fact) =>
  written(
    place,
    'memory.jsonl',
    `${JSON.stringify({ type: 'entity', name: 'box', entityType: 'thing', observations: [fact] })}\n`,
  );

/**
 * Serves a page with a word in its text, and a title that only a browser sees.
 *
 * @param {Place} place
 * @param {string} word
 * @returns {Promise<{ url: string, shows: string }>}
 */
async function pageWith(place, word) {
  const { text, result } = product();
  const page = `<!doctype html><p>${word}</p><script>document.title = 'It is ' + ${text}</script>`;
  const server = http.createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/html' });
    response.end(page);
  });
  const port = await freePort();
  await new Promise((/** @type {(value: void) => void} */ resolve) =>
    server.listen(port, '127.0.0.1', resolve),
  );
  place.atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${port}/`, shows: `It is ${result}` };
}

/** @returns {string} the browser of this machine */
function chromium() {
  if (process.env.FERMATA_CHROMIUM) return process.env.FERMATA_CHROMIUM;
  for (const folder of (process.env.PATH ?? '').split(path.delimiter)) {
    for (const name of ['chromium', 'chromium-browser', 'google-chrome']) {
      try {
        accessSync(path.join(folder, name), constants.X_OK);
        return path.join(folder, name);
      } catch {
        // The next folder may have it.
      }
    }
  }
  throw new Error('there is no Chromium: install one, or set FERMATA_CHROMIUM');
}
