// @ts-check
// Shell blocks of pages of the guide that no other test runs, as they are printed, against the built binary.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { EventStream } from '../harness/events.mjs';
import { Server, binary } from '../harness/server.mjs';

const GUIDE = path.resolve(import.meta.dirname, '../../docs/guide');

/** The shell blocks of a page that have these words. @param {string} page @param {string} words */
function block(page, words) {
  const text = readFileSync(path.join(GUIDE, page), 'utf8');
  const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```/gm)].map(([, block = '']) => block);
  const found = blocks.filter((block) => block.includes(words));
  assert.equal(found.length, 1, `${page} has ${found.length} shell blocks with ${words}`);
  return found[0] ?? '';
}

/**
 * Types a block into a terminal, where `fermata` is the built binary.
 *
 * @param {string} script
 * @param {Server} [server] the one at port 3000 of the page
 */
function type(script, server) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'fermata-docs-'));
  try {
    mkdirSync(path.join(folder, 'bin'));
    symlinkSync(binary(), path.join(folder, 'bin/fermata'));
    return execFileSync('sh', ['-e', '-c', script.replaceAll('http://127.0.0.1:3000', server?.url ?? '')], {
      cwd: folder,
      env: {
        PATH: `${folder}/bin:${process.env.PATH}`,
        ...(server && { FERMATA_BIND: new URL(server.url).host }),
      },
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test('memory.md stores a memory and finds it', async () => {
  const server = await Server.start({});
  try {
    const shown = type(block('memory.md', '/api/memories'), server);
    assert.equal(shown.split('Prefers Celsius.').length, 3, shown);
  } finally {
    await server.discard();
  }
});

test('quick-start.md downloads the client from the server', async () => {
  const server = await Server.start({});
  try {
    const script = `${block('quick-start.md', 'fermata.ts')}\ncat fermata.ts fermata-react.ts`;
    assert.match(type(script, server), /export class FermataTransport[\s\S]*export function useFermataChat/);
  } finally {
    await server.discard();
  }
});

test('rotation.md makes the hash of a token, with which the token is accepted', async () => {
  const shown = type(`${block('rotation.md', 'sha256sum')}\ncat tokens; echo "$token"`);
  const [entry = '', token = ''] = shown.trim().split('\n');
  const server = await Server.start({ FERMATA_AUTH: 'token', FERMATA_TOKENS: entry });
  try {
    const response = await fetch(`${server.url}/api/chats`, {
      headers: { authorization: `Bearer ${token}` },
    });
    assert.equal(response.status, 200);
  } finally {
    await server.discard();
  }
});

test('install.md writes a file, checks it, and answers a call at a terminal', async () => {
  const first = block('install.md', 'fermata init').replace(/^fermata +#.*$/m, '');
  assert.match(type(first), /wrote fermata\.toml[\s\S]*bind = /);
  const server = await Server.start({});
  try {
    const body = { id: 'shopping', messages: [{ role: 'user', content: 'write a note: buy milk' }] };
    const stream = await EventStream.open(`${server.url}/api/chat`, { body });
    await stream.sees('tool-approval-request');
    const shown = type(block('install.md', 'fermata chats').replaceAll('CHAT', 'shopping'), server);
    assert.match(shown, /1 waiting[\s\S]*waits \(approval\)[\s\S]*approved: Write the note/);
    await stream.toEnd();
  } finally {
    await server.discard();
  }
});
