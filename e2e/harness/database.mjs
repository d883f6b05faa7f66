// @ts-check
// The server's SQLite file, read as an operator reads it: with Node's own SQLite, or where Node is too old
// for that with the `sqlite3` program.

import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';

/** @typedef {Record<string, string | number | null>} Row */

/** @typedef {{ reads: (file: string, query: string) => Promise<Row[]>, changes: (file: string, statement: string) => Promise<void> }} Way */

/** @returns {Promise<Way | undefined>} a way to such files, if there is one */
async function found() {
  const own = 'node:sqlite';
  try {
    const { DatabaseSync } = await import(own);
    const opened = (
      /** @type {string} */ file,
      /** @type {boolean} */ readOnly,
      /** @type {(database: any) => any} */ use,
    ) => {
      const database = new DatabaseSync(file, { readOnly });
      try {
        return use(database);
      } finally {
        database.close();
      }
    };
    return {
      reads: async (file, query) => opened(file, true, (database) => database.prepare(query).all()),
      changes: async (file, statement) => opened(file, false, (database) => database.exec(statement)),
    };
  } catch {
    const run = promisify(execFile);
    const program = (/** @type {string[]} */ ...args) => run('sqlite3', args);
    return program('--version').then(
      () => ({
        reads: async (file, query) =>
          JSON.parse((await program('-readonly', '-json', file, query)).stdout || '[]'),
        changes: async (file, statement) => void (await program(file, statement)),
      }),
      () => undefined,
    );
  }
}

const way = await found();

/** Why no database can be read here; `undefined` where one can. */
export const NO_DATABASE =
  way === undefined ? 'neither node:sqlite (Node 22) nor the sqlite3 program is there' : undefined;

/**
 * @param {{ folder: string }} place
 * @param {string} query
 */
export async function rows({ folder }, query) {
  if (way === undefined) throw new Error(NO_DATABASE);
  return way.reads(path.join(folder, 'chats.db'), query);
}

/**
 * Changes the database of a server that does not run.
 *
 * @param {{ folder: string }} place
 * @param {string} statement
 */
export async function change({ folder }, statement) {
  if (way === undefined) throw new Error(NO_DATABASE);
  return way.changes(path.join(folder, 'chats.db'), statement);
}
