// @ts-check
// The server's SQLite file, read as an operator reads it: with Node's own SQLite, or where Node is too old
// for that with the `sqlite3` program.

import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';

/** @typedef {Record<string, string | number | null>} Row */

/**
 * @returns {Promise<((file: string, query: string) => Promise<Row[]>) | undefined>} a way to read such files,
 * if there is one
 */
async function found() {
  const own = 'node:sqlite';
  try {
    const { DatabaseSync } = await import(own);
    return async (file, query) => {
      const database = new DatabaseSync(file, { readOnly: true });
      try {
        return database.prepare(query).all();
      } finally {
        database.close();
      }
    };
  } catch {
    const run = promisify(execFile);
    const program = (/** @type {string[]} */ ...args) => run('sqlite3', args);
    return program('--version').then(
      () => async (file, query) =>
        JSON.parse((await program('-readonly', '-json', file, query)).stdout || '[]'),
      () => undefined,
    );
  }
}

const reads = await found();

/** Why no database can be read here; `undefined` where one can. */
export const NO_DATABASE =
  reads === undefined ? 'neither node:sqlite (Node 22) nor the sqlite3 program is there' : undefined;

/**
 * @param {{ folder: string }} place
 * @param {string} query
 */
export async function rows({ folder }, query) {
  if (reads === undefined) throw new Error(NO_DATABASE);
  return reads(path.join(folder, 'chats.db'), query);
}
