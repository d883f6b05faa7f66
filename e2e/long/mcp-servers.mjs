// @ts-check
// MCP servers from npm and PyPI, as people configure them; part of `npm run soak`. The tools of each server are
// listed. The model calls one of them, the call is approved, and its result arrives on the same stream. Then
// everything ends, and no process is left. This needs Linux, python3, git, Chromium (FERMATA_CHROMIUM names
// one) and, for the first run, a network. SERVER=time chooses the servers with that text in their titles.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { newestOf } from '../harness/clients.mjs';
import { calls, says } from '../harness/fake-openai.mjs';
import { freePort } from '../harness/ports.mjs';
import { World } from '../harness/scenario.mjs';
import { until } from '../harness/until.mjs';
import { ROWS } from './mcp-rows.mjs';
import { install } from './packages.mjs';

/** @typedef {import('./mcp-rows.mjs').Means} Means */
/** @typedef {import('./mcp-rows.mjs').Row} Row */
/** @typedef {import('./mcp-rows.mjs').Setup} Setup */

/** The deadline, in milliseconds. A server may take a minute to start. */
const PATIENCE = 90_000;
/** The number of lines of a log that a failure shows. */
const LOG_LINES = 40;
/** The server's name in the settings. */
const NAME = 'judged';

/**
 * A line of the report, as far as it is known.
 *
 * @typedef {object} Findings
 * @property {string} [protocol] the version of MCP that is spoken
 * @property {number} [tools] their number
 * @property {number} [seconds] from the start of Fermata until the tools are listed
 * @property {string} [called] the tool
 */

/**
 * The part of `GET /api/tools` that is read here.
 *
 * @typedef {object} Listing
 * @property {{ name: string }[]} tools
 * @property {{ name: string, state: string, protocol?: string, reason?: string }[]} servers
 */

// === one server ===

/**
 * Starts Fermata with a server, calls a tool, and ends both.
 *
 * @param {Row} row
 * @param {Findings} findings filled in on the way
 */
async function judge(row, findings) {
  const programs = await install(row.of);
  const port = row.overHttp ? await freePort() : 0;
  /** @type {Setup | undefined} */
  let setup;
  /** @type {Awaited<ReturnType<typeof startOverHttp>> | undefined} */
  let overHttp;
  let began = 0;
  const world = await World.create(newestOf(7), {
    config: async (place) => {
      const program = (/** @type {string} */ name) => path.join(programs, name);
      setup = await row.setUp({ place, secret: randomUUID(), port, program });
      if (row.overHttp) overHttp = await startOverHttp(place, setup, port);
      began = performance.now();
      return row.overHttp ? tableOfUrl(setup, port) : tableOfProgram(setup, place.folder);
    },
  });
  try {
    assert.ok(setup);
    const { protocol, tools } = await connection(world);
    const seconds = (performance.now() - began) / 1000;
    Object.assign(findings, { protocol, tools: tools.length, seconds });
    await callOnce(world, `${NAME}__${row.tool}`, setup);
    findings.called = row.tool;
    await world.judge();
    await world.server.end();
    assert.equal(world.server.exitCode, 0, 'the exit status of the server');
    if (overHttp === undefined) await nothingIsLeft(world.folder);

    const { code, output } = await world.server.command('--check', '--mcp');
    assert.equal(code, 0, output);
    const line = `# mcp.${NAME}: connected, MCP ${protocol}, ${tools.length} tools: ${tools.join(', ')}\n`;
    assert.ok(output.includes(line), `${line} is not in:\n${output}`);
    overHttp?.stop();
    await nothingIsLeft(world.folder);
    const complaints = world.server.log.split('\n').filter((line) => / (WARN|ERROR) fermata_mcp/.test(line));
    assert.deepEqual(complaints, [], 'warnings and errors in the log');
  } catch (error) {
    for (const log of [world.server.log, overHttp?.log() ?? '']) {
      for (const line of log.trim().split('\n').slice(-LOG_LINES)) console.log(`    ${line}`);
    }
    throw error;
  } finally {
    await world.dispose();
  }
}

/**
 * Waits until the server is connected.
 *
 * @param {World} world
 */
async function connection(world) {
  /** @type {Listing} */
  let listing = { tools: [], servers: [] };
  await until(
    async () => {
      const response = await world.request('GET', '/api/tools');
      listing = /** @type {Listing} */ (await response.json());
      return listing.servers[0]?.state === 'connected';
    },
    () => `a connection: ${JSON.stringify(listing.servers)}`,
    PATIENCE,
  );
  const [{ protocol = '' } = {}] = listing.servers;
  assert.match(protocol, /^\d{4}-\d\d-\d\d$/);
  const prefix = `${NAME}__`;
  const names = listing.tools.map(({ name }) => name).filter((name) => name.startsWith(prefix));
  return { protocol, tools: names.map((name) => name.slice(prefix.length)).sort() };
}

/**
 * Has the model call a tool, approves the call, and reads the result from the stream of the request.
 *
 * @param {World} world
 * @param {string} name
 * @param {Setup} setup
 */
async function callOnce(world, name, { input, shows }) {
  world.model.script(calls({ name, input }), says('Done.'));
  const stream = await world.post('Go on.');
  const { approvalId } = await stream.sees('tool-approval-request');
  const [waiting, ...others] = await world.pending();
  assert.deepEqual([waiting?.tool, waiting?.kind, others.length], [name, 'approval', 0]);
  const results = () =>
    stream.chunks.filter(({ type, preliminary }) => /^tool-output/.test(type) && !preliminary);
  assert.deepEqual(results(), [], 'no result before the approval');
  await world.answer({ approvalId, approved: true });
  await until(
    () => stream.ended,
    () => `the end of: ${stream.outline}`,
    PATIENCE,
  );
  assert.ok(stream.done, `the stream broke off: ${stream.outline}`);
  const [result, ...more] = results();
  const shown = JSON.stringify(result);
  assert.deepEqual([result?.type, more.length], ['tool-output-available', 0], shown);
  assert.ok(shown.includes(shows), `${shows} is not in:\n${shown}`);
  const [read] = world.model.request(2).results;
  assert.ok(read?.text.includes(shows), `${shows} is not what the model reads:\n${read?.text}`);
}

// === settings and processes ===

/**
 * @param {Setup} setup
 * @param {number} port
 */
const tableOfUrl = ({ settings = [] }, port) =>
  [`[mcp.${NAME}]`, `url = "http://127.0.0.1:${port}/mcp"`, ...settings].join('\n');

/**
 * @param {Setup} setup
 * @param {string} home
 */
function tableOfProgram({ command: [command, ...args], env, settings = [] }, home) {
  const pairs = Object.entries({ HOME: home, ...env });
  return [
    `[mcp.${NAME}]`,
    `command = ${JSON.stringify(command)}`,
    `args = ${JSON.stringify(args)}`,
    `env = { ${pairs.map(([key, value]) => `${key} = ${JSON.stringify(value)}`).join(', ')} }`,
    ...settings,
  ].join('\n');
}

/**
 * Starts a server over HTTP and waits until it listens.
 *
 * @param {Means['place']} place
 * @param {Setup} setup
 * @param {number} port
 */
async function startOverHttp(place, { command: [command = '', ...args], env }, port) {
  const child = spawn(command, args, {
    cwd: place.folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, HOME: place.folder, ...env },
  });
  place.atEnd(() => child.kill('SIGKILL'));
  let log = '';
  for (const output of [child.stdout, child.stderr]) {
    output.on('data', (bytes) => {
      log += bytes;
    });
  }
  child.once('error', (error) => {
    log += error;
  });
  await until(
    () => {
      if (child.exitCode !== null || child.pid === undefined)
        throw new Error(`the MCP server did not start:\n${log}`);
      return isOpen(port);
    },
    () => `the MCP server to listen:\n${log}`,
    PATIENCE,
  );
  return { log: () => log, stop: () => child.kill('SIGTERM') };
}

/** @param {number} port @returns {Promise<boolean>} */
const isOpen = (port) =>
  new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });

/**
 * Waits until no process is left that a row has started. Each row has a home of its own, which the processes of
 * a server inherit, even a browser that leaves the process group.
 *
 * @param {string} home
 */
const nothingIsLeft = async (home) =>
  until(
    () => processesWith(`HOME=${home}`).length === 0,
    () => `the end of:\n${processesWith(`HOME=${home}`).join('\n')}`,
  );

/** @param {string} variable @returns {string[]} the command lines of the processes with that variable */
function processesWith(variable) {
  return readdirSync('/proc').flatMap((entry) => {
    try {
      const read = (/** @type {string} */ name) => readFileSync(`/proc/${entry}/${name}`, 'utf8').split('\0');
      return read('environ').includes(variable) ? [`${entry} ${read('cmdline').join(' ')}`] : [];
    } catch {
      // The entry is no process, or one that has ended or belongs to another user.
      return [];
    }
  });
}

// === all of them ===

/** @param {Row} row */
const titleOf = ({ of, overHttp, variant }) =>
  `${of.name} ${of.version}, ${overHttp ? 'HTTP' : 'stdio'}${variant === undefined ? '' : `, ${variant}`}`;

const chosen = ROWS.filter((row) => titleOf(row).includes(process.env.SERVER ?? ''));
const width = Math.max(...chosen.map((row) => titleOf(row).length));
let failures = 0;
for (const row of chosen) {
  /** @type {Findings} */
  const findings = {};
  /** @type {unknown} */
  let failure;
  try {
    await judge(row, findings);
  } catch (error) {
    failure = error;
    failures += 1;
  }
  const { protocol = '-', tools = '-', seconds, called = '-' } = findings;
  const columns = [
    titleOf(row).padEnd(width),
    protocol.padEnd('2026-07-28'.length),
    `${String(tools).padStart(2)} tools`,
    `${seconds?.toFixed(1) ?? '-'} s`.padStart('10.0 s'.length),
    called,
  ];
  console.log(`${failure === undefined ? 'ok  ' : 'FAIL'} ${columns.join('  ')}`);
  if (failure !== undefined) console.log(failure);
}
console.log(`${chosen.length - failures} of ${chosen.length} servers are fine`);
process.exit(failures === 0 && chosen.length > 0 ? 0 : 1);
