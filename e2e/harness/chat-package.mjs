// @ts-check
// The package for chat pages, as it is in `packages/fermata-chat`, with one of the installed versions of `ai`: without its types, which is all
// that Node needs.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import ts from 'typescript';

/** @typedef {import('./clients.mjs').Client} Client */
/** @typedef {import('./sdk.mjs').Message} Message */
/**
 * A chat of the package, as far as pages here use it.
 *
 * @typedef {object} Chat
 * @property {string} status
 * @property {Error} [error]
 * @property {Message[]} messages
 * @property {'open' | 'closed' | 'reconnecting'} connection
 * @property {(options?: { isNew?: boolean }) => () => void} open
 * @property {(message: { text: string }) => Promise<void>} sendMessage
 * @property {(response: { id: string, approved: boolean }) => Promise<void>} addToolApprovalResponse
 */
/**
 * @typedef {object} Options
 * @property {string} api
 * @property {typeof fetch} fetch
 * @property {Record<string, object>} tools
 * @property {(connection: string) => void} onConnection
 */
/**
 * @typedef {object} Package
 * @property {(options: Options) => { chat: (Chat: new (init: object) => object, init: object) => Chat }} fermata
 */

const SOURCE = path.resolve(import.meta.dirname, '../../packages/fermata-chat/src');
/** Below this folder, so that what the files import is found here. */
const BUILT = path.resolve(import.meta.dirname, '../.bin/fermata-chat');

/** @type {Map<string, Promise<Package>>} */
const loaded = new Map();

/**
 * @param {Client} client
 * @returns {Promise<Package>}
 */
export function chatPackage({ package: version }) {
  const known = loaded.get(version) ?? build(version);
  loaded.set(version, known);
  return known;
}

/** @param {string} version of `ai` */
async function build(version) {
  // Tests run in several processes at once.
  const folder = path.join(BUILT, `${version}-${process.pid}`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, 'package.json'), '{ "type": "module" }');
  for (const name of readdirSync(SOURCE).filter((name) => name.endsWith('.ts'))) {
    const source = readFileSync(path.join(SOURCE, name), 'utf8');
    const { outputText } = ts.transpileModule(source, {
      compilerOptions: { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext },
    });
    const text = outputText.replaceAll("'ai/package.json'", `'ai-${version}/package.json'`);
    writeFileSync(path.join(folder, name.replace(/ts$/, 'js')), text);
  }
  return import(pathToFileURL(path.join(folder, 'index.js')).href);
}
