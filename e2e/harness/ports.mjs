// @ts-check
// Ports for servers that are started, killed and started again: each belongs to one test process for as long
// as that lives, so that nobody else is given it before its server listens, or while it is down.

import { randomInt } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { until } from './until.mjs';

/** Below those that the system gives out by itself. */
const PORTS = { from: 10_240, to: 32_768 };

/** A file for each port that is taken, with the id of the process that has it. */
const TAKEN = path.join(os.tmpdir(), 'fermata-e2e-ports');
mkdirSync(TAKEN, { recursive: true });

/** @type {Set<string>} */
const own = new Set();
process.on('exit', () => {
  for (const file of own) rmSync(file, { force: true });
});

/** @returns {Promise<number>} a port that nobody listens on, and no other test process will */
export async function freePort() {
  for (;;) {
    const port = randomInt(PORTS.from, PORTS.to);
    if (take(path.join(TAKEN, String(port))) && (await isFree(port))) return port;
  }
}

/**
 * Waits until no other test process uses a port that the documents name. It is this process's until it ends.
 *
 * @param {number} port
 */
export async function claimPort(port) {
  await until(
    () => take(path.join(TAKEN, String(port))) || own.has(path.join(TAKEN, String(port))),
    `port ${port}, which another test uses`,
  );
}

/** @param {string} file @returns {boolean} whether it is this process's now */
function take(file) {
  if (own.has(file)) return false;
  if (isLeftOver(file)) rmSync(file, { force: true });
  try {
    writeFileSync(file, String(process.pid), { flag: 'wx' });
  } catch {
    return false;
  }
  own.add(file);
  return true;
}

/** @param {string} file @returns {boolean} whether its process was killed before it could give it back */
function isLeftOver(file) {
  try {
    process.kill(Number(readFileSync(file, 'utf8')), 0);
    return false;
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === 'ESRCH';
  }
}

/** @param {number} port @returns {Promise<boolean>} */
async function isFree(port) {
  const listener = net.createServer();
  const isFree = await new Promise((/** @type {(value: boolean) => void} */ resolve) => {
    listener.once('error', () => resolve(false));
    listener.listen(port, '127.0.0.1', () => resolve(true));
  });
  if (isFree) await new Promise((resolve) => listener.close(resolve));
  return isFree;
}
