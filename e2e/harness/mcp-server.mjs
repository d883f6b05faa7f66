// @ts-check
// An MCP server over stdio, written out by hand so that it can do what a good one does not: die in a call,
// never answer, wait for a test. Its arguments are a folder and, optionally, the names of the tools that it
// has; in the folder it writes down what happens to it (`journal.jsonl`) and looks for the files that a
// test lets it go on with. The ledger is a folder with a file for each effect; LEDGER names the folder that has it
// if several servers share one.

import {
  appendFileSync,
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import readline from 'node:readline';

const [folder = '.', ...chosen] = process.argv.slice(2);
const ledger = path.join(process.env.LEDGER ?? folder, 'ledger');
const PAUSE = 5;
/** The smallest PNG. */
const DOT =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';

/**
 * @typedef {{ id?: number | string, method?: string, params?: Record<string, any>, result?: unknown, error?:
 * unknown }} Message
 */
/** @typedef {Record<string, any>} Input */
/**
 * @typedef {{ readOnly: boolean, run: (input: Input, call: { id: number | string, token: unknown, key?: string })
 * => unknown }} Tool
 */

/** @param {string} text */
const words = (text) => ({ content: [{ type: 'text', text }] });

/** @param {string} event @param {unknown} [about] */
const note = (event, about) =>
  appendFileSync(path.join(folder, 'journal.jsonl'), `${JSON.stringify({ event, about })}\n`);

/** @param {object} message */
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

let requests = 0;
/** @type {Map<unknown, (result: unknown) => void>} */
const unanswered = new Map();

/**
 * Asks the other side.
 *
 * @param {string} method
 * @param {object} params
 */
const request = (method, params) =>
  new Promise((resolve) => {
    const id = `q${++requests}`;
    unanswered.set(id, resolve);
    send({ id, method, params });
  });

/** @param {string} file that a test writes */
const written = async (file) => {
  while (!existsSync(path.join(folder, file))) await new Promise((resolve) => setTimeout(resolve, PAUSE));
};

/** @param {'once' | 'again'} event @param {Input} input */
const leavesTrace = async (event, { key = '', takes = 0 }) => {
  note(event, key);
  await new Promise((resolve) => setTimeout(resolve, takes));
  return words(`ran ${key}`);
};

/**
 * Has an effect, unless it was had with this key before. The file is complete and on the disk before it has its
 * name, and only one process can give it that name.
 *
 * @param {string} key
 * @param {string} about
 * @returns {boolean} whether the effect is new
 */
function books(key, about) {
  mkdirSync(ledger, { recursive: true });
  const draft = path.join(folder, `draft-${process.pid}-${++requests}`);
  const file = openSync(draft, 'wx');
  writeSync(file, about);
  fsyncSync(file);
  closeSync(file);
  try {
    linkSync(draft, path.join(ledger, key));
    return true;
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EEXIST') throw error;
    return false;
  } finally {
    rmSync(draft);
  }
}

/** @type {Record<string, Tool>} */
const TOOLS = {
  look: { readOnly: true, run: ({ key = '' }) => words(`saw ${key}`) },
  change: {
    readOnly: false,
    run: ({ key = '' }) => {
      note('changed', key);
      return words(`changed ${key}`);
    },
  },
  // Writes down that it ran, then takes its time. Which of the two may run again is a matter of the settings.
  once: { readOnly: true, run: (input) => leavesTrace('once', input) },
  again: { readOnly: true, run: (input) => leavesTrace('again', input) },
  // Has its effect once for each idempotency key, and takes its time if the effect is new.
  book: {
    readOnly: true,
    run: async ({ key: about = '', takes = 0 }, { key }) => {
      note('book', about);
      if (key === undefined) return { ...words('the call has no idempotency key'), isError: true };
      if (!books(key, about)) return words(`${about} was booked before`);
      await new Promise((resolve) => setTimeout(resolve, takes));
      return words(`booked ${about}`);
    },
  },
  // Begins, takes its time, ends.
  alone: {
    readOnly: true,
    run: async ({ key = '', takes = 0 }) => {
      note('begin', key);
      await new Promise((resolve) => setTimeout(resolve, takes));
      note('end', key);
      return words(`alone with ${key}`);
    },
  },
  // Begins, waits for the file `go-<key>`, ends.
  work: {
    readOnly: true,
    run: async ({ key = '' }) => {
      note('begin', key);
      await written(`go-${key}`);
      note('end', key);
      return words(`worked on ${key}`);
    },
  },
  report: {
    readOnly: true,
    run: async (_, { token }) => {
      send({
        method: 'notifications/progress',
        params: { progressToken: token, progress: 1, message: 'started' },
      });
      await written('go-report');
      return { ...words('done'), structuredContent: { rows: 3 } };
    },
  },
  slow_look: {
    readOnly: true,
    run: (_, { id }) => {
      note('slow', id);
      return new Promise(() => {});
    },
  },
  die: {
    readOnly: true,
    run: () => {
      note('asked to die');
      process.exit(1);
    },
  },
  die_once: {
    readOnly: true,
    run: () => {
      const grave = path.join(folder, 'died');
      note('asked to die');
      if (existsSync(grave)) return words('alive again');
      writeFileSync(grave, '');
      process.exit(1);
    },
  },
  fail: { readOnly: true, run: () => ({ ...words('the disk is full'), isError: true }) },
  // Much progress in no time, then an error.
  flood: {
    readOnly: true,
    run: async (_, { token }) => {
      for (let progress = 1; progress <= 5000; progress += 1) {
        send({ method: 'notifications/progress', params: { progressToken: token, progress, total: 5000 } });
      }
      await written('go-flood');
      return { ...words('the pipe has burst'), isError: true };
    },
  },
  // Asks the person, writes down what was answered, and says it.
  ask: {
    readOnly: true,
    run: async ({ key = '' }) => {
      const requestedSchema = {
        type: 'object',
        properties: { color: { type: 'string', enum: ['red', 'blue'] } },
      };
      const answer = await request('elicitation/create', {
        message: `Which color, ${key}?`,
        requestedSchema,
      });
      note('answered', answer);
      return words(JSON.stringify(answer));
    },
  },
  big: { readOnly: true, run: ({ key = '1' }) => words('x'.repeat(Number(key))) },
  nothing: { readOnly: true, run: () => ({ content: [] }) },
  'an odd.name/with a great many characters that no provider would ever take': {
    readOnly: true,
    run: () => words('odd'),
  },
  // Has another tool from now on.
  learn: {
    readOnly: true,
    run: () => {
      names.push('change');
      send({ method: 'notifications/tools/list_changed' });
      return words('learnt');
    },
  },
  environment: { readOnly: true, run: () => words(JSON.stringify(process.env)) },
  picture: {
    readOnly: true,
    run: () => ({
      content: [
        { type: 'text', text: 'a dot' },
        { type: 'image', data: DOT, mimeType: 'image/png' },
      ],
    }),
  },
};

const names = chosen.length > 0 ? [...chosen] : Object.keys(TOOLS);

const listed = () =>
  names.map((name) => ({
    name,
    description: `Does ${name}.`,
    inputSchema: { type: 'object', properties: { key: { type: 'string' }, takes: { type: 'integer' } } },
    annotations: { readOnlyHint: TOOLS[name]?.readOnly ?? false },
  }));

/** @param {Message} message */
async function call({ id = 0, params = {} }) {
  const tool = TOOLS[params.name];
  if (tool === undefined) return send({ id, error: { code: -32602, message: `no tool ${params.name}` } });
  const { progressToken: token, 'io.fermata/idempotencyKey': key } = params._meta ?? {};
  const result = await tool.run(params.arguments ?? {}, { id, token, key });
  return send({ id, result });
}

/** @param {Message} message */
function take(message) {
  const { id, method, params = {} } = message;
  switch (method) {
    case 'initialize':
      return send({
        id,
        result: {
          protocolVersion: params.protocolVersion,
          capabilities: { tools: { listChanged: true } },
          serverInfo: { name: 'by-hand', version: '1' },
        },
      });
    case 'tools/list':
      return send({ id, result: { tools: listed() } });
    case 'tools/call':
      return void call(message);
    case 'ping':
      return send({ id, result: {} });
    case 'notifications/cancelled':
      return note('cancelled', params.requestId);
    case undefined:
      unanswered.get(id)?.(message.result ?? message.error);
      unanswered.delete(id);
      return undefined;
    default:
      if (id !== undefined) send({ id, error: { code: -32601, message: 'not known' } });
  }
}

note('started', process.pid);
readline.createInterface({ input: process.stdin }).on('line', (line) => take(JSON.parse(line)));
process.stdin.on('end', () => process.exit(0));
