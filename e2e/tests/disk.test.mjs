// @ts-check
// A database on a full disk. The system's limit on the size of a process's files stands in for a
// disk that is full: it needs no file system of its own, and can be lifted while the server runs.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import path from 'node:path';
import { says } from '../harness/fake-openai.mjs';
import { scenario } from '../harness/scenario.mjs';

/** @typedef {import('../harness/scenario.mjs').World} World */

const NO_LIMITS =
  spawnSync('prlimit', ['--version']).error === undefined ? undefined : 'the prlimit program is not there';
/** A write that goes over the limit fails then, and does not end the process. */
const OUTLIVES_LIMITS = ['bash', '-c', `trap '' XFSZ; exec "$0"`];
/** The largest number of posts until the database is full. */
const MAX_POSTS = 100;

/** @param {World} world @param {string | number} bytes */
const limitFiles = (world, bytes) =>
  execFileSync('prlimit', ['--pid', String(world.server.pid), `--fsize=${bytes}:unlimited`]);

/** @param {World} world @param {string} route @param {RequestInit} [request] */
async function asks(world, route, request) {
  const response = await fetch(world.server.url + route, request);
  return { status: response.status, text: await response.text() };
}

/** @param {World} world @param {string} id */
function says100kB(world, id) {
  const body = JSON.stringify({ id, message: { role: 'user', content: 'x'.repeat(100_000) } });
  return asks(world, '/api/chat', { method: 'POST', body });
}

scenario(
  'a server whose disk was full writes again as soon as there is room',
  { versions: [6], through: OUTLIVES_LIMITS, skip: NO_LIMITS },
  async (world) => {
    world.model.improvise = () => says('Noted.');
    assert.equal((await says100kB(world, 'before')).status, 200);
    limitFiles(world, statSync(path.join(world.folder, 'chats.db-wal')).size + 300_000);

    let full = { status: 200, text: '' };
    for (let n = 0; full.status === 200 && n < MAX_POSTS; n += 1) full = await says100kB(world, `chat-${n}`);
    assert.equal(full.status, 503, full.text);
    for (const route of ['/api/chat/before', '/api/chats', '/healthz']) {
      assert.equal((await asks(world, route)).status, 200, `${route} needs no room`);
    }
    const ready = await asks(world, '/readyz');
    assert.equal(ready.status, 503, ready.text);

    limitFiles(world, 'unlimited');
    const posted = await says100kB(world, 'after');
    assert.equal(posted.status, 200, posted.text);
    assert.equal((await asks(world, '/readyz')).status, 200);
    assert.equal((await asks(world, '/api/chat/before', { method: 'DELETE' })).status, 204);
  },
);
