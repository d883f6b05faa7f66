// @ts-check
// MCP servers as a `fermata.toml` names them: the reference server from npm, over both transports, and one
// written by hand that does what a test tells it.

import { spawn } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { freePort } from './ports.mjs';
import { until } from './until.mjs';

const REFERENCE = path.resolve(
  import.meta.dirname,
  '../node_modules/@modelcontextprotocol/server-everything/dist/index.js',
);
const BY_HAND = path.join(import.meta.dirname, 'mcp-server.mjs');

/** Tools that say that they only read run without asking, which is what most scenarios are not about. */
const TRUSTED = 'trust_annotations = true\n';

/**
 * The place of such a server.
 *
 * @typedef {object} Place
 * @property {string} folder of the server, removed at the end
 * @property {(end: () => void) => void} atEnd has something ended with the scenario
 */

/**
 * A table for a server that is a program.
 *
 * @param {string} name
 * @param {string[]} args of node
 * @param {Record<string, string>} [env]
 * @param {string} [more] lines of the table
 */
function program(name, args, env = {}, more = TRUSTED) {
  const pairs = Object.entries(env).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
  const lines = [
    `[mcp.${name}]`,
    `command = ${JSON.stringify(process.execPath)}`,
    `args = ${JSON.stringify(args)}`,
  ];
  return `${lines.join('\n')}\nenv = { ${pairs.join(', ')} }\n${more}`;
}

/**
 * The reference server as a program.
 *
 * @param {string} [name]
 */
export const everything = (name = 'everything') => program(name, [REFERENCE, 'stdio']);

/** The same, with no settings except its start. */
export const everythingUntrusted = () => program('everything', [REFERENCE, 'stdio'], {}, '');

/**
 * The server by hand.
 *
 * @param {{ folder: string }} place in whose folder it keeps its journal
 * @param {{ name?: string, tools?: string[], env?: Record<string, string>, more?: string }} [options] tools:
 * all that it
 *   knows, if left out; more: lines of the table
 */
export const byHand = ({ folder }, { name = 'hand', tools = [], env, more = '' } = {}) =>
  program(name, [BY_HAND, folder, ...tools], env, `${TRUSTED}${more}`);

/**
 * The reference server over HTTP; it runs until the scenario is over.
 *
 * @param {Place} place
 */
export async function everythingOverHttp(place) {
  const port = await freePort();
  const child = spawn(process.execPath, [REFERENCE, 'streamableHttp'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: process.env.PATH, PORT: String(port) },
  });
  place.atEnd(() => child.kill('SIGKILL'));
  let log = '';
  child.stderr.on('data', (bytes) => {
    log += bytes;
  });
  await until(
    () => {
      if (child.exitCode !== null) throw new Error(`the MCP server did not start:\n${log}`);
      return log.includes('listening');
    },
    () => `the MCP server to listen:\n${log}`,
  );
  return `[mcp.everything]\nurl = "http://127.0.0.1:${port}/mcp"\n${TRUSTED}`;
}

/**
 * Returns the journal of the server by hand so far.
 *
 * @param {{ folder: string }} place
 */
export function journal({ folder }) {
  const file = path.join(folder, 'journal.jsonl');
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
  return lines
    .filter((line) => line !== '')
    .map((line) => /** @type {{ event: string, about?: unknown }} */ (JSON.parse(line)));
}

/**
 * Returns the subjects of the calls of `book` whose effects are in the ledger, one for each effect.
 *
 * @param {{ folder: string }} place
 * @returns {string[]}
 */
export function booked({ folder }) {
  const ledger = path.join(folder, 'ledger');
  const keys = existsSync(ledger) ? readdirSync(ledger) : [];
  return keys.map((key) => readFileSync(path.join(ledger, key), 'utf8'));
}

/**
 * Lets a call of the server by hand go on.
 *
 * @param {{ folder: string }} place
 * @param {string} key
 */
export const letGo = ({ folder }, key) => writeFileSync(path.join(folder, `go-${key}`), '');

/**
 * Returns the number of times that something has happened to the server by hand.
 *
 * @param {{ folder: string }} place
 * @param {string} event
 */
export const times = (place, event) => journal(place).filter((line) => line.event === event).length;

/**
 * The process that the server by hand was started as last.
 *
 * @param {{ folder: string }} place
 */
export const processOf = (place) =>
  Number(journal(place).findLast(({ event }) => event === 'started')?.about);

/**
 * Returns `true` if a process is there.
 *
 * @param {number} pid
 */
export function isThere(pid) {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
