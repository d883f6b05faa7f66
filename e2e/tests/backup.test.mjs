// @ts-check
// A copy of the database that is made while the server runs, and what is there again when it is put back.

import assert from 'node:assert/strict';
import { existsSync, readdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { EventStream } from '../harness/events.mjs';
import { API_KEY, FakeOpenAi, calls, says } from '../harness/fake-openai.mjs';
import { BROWSER_TOOLS } from '../harness/scenario.mjs';
import { Server } from '../harness/server.mjs';
import { until } from '../harness/until.mjs';

const locate = { name: 'get_location', input: { accuracy: 'high' } };

/** @param {Server} server @param {string} route @param {unknown} [body] */
async function asks(server, route, body) {
  const posted =
    body === undefined
      ? {}
      : { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
  const response = await fetch(server.url + route, posted);
  return { status: response.status, text: await response.text() };
}

test('a backup is made while the server runs, and a call that waited in it can be answered after it was restored', async () => {
  const model = await FakeOpenAi.start();
  const settings = { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: API_KEY, FERMATA_MODEL: 'test-model' };
  const server = await Server.start(settings);
  try {
    model.script(calls(locate), says('You are in Bern.'));
    const body = { id: 'a', messages: [{ role: 'user', content: 'where am I?' }], tools: BROWSER_TOOLS };
    const stream = await EventStream.open(`${server.url}/api/chat`, { body });
    const toolCallId = String((await stream.sees('tool-input-available')).toolCallId);

    const made = await server.command('backup', 'copy.db');
    assert.equal(made.code, 0, made.output);
    assert.match(made.output, /^backed up into copy\.db \(\d+ bytes\)\n$/);
    assert.equal(statSync(path.join(server.folder, 'copy.db')).mode & 0o777, 0o600);
    const again = await server.command('backup', 'copy.db');
    assert.equal(again.code, 1);
    assert.match(again.output, /copy\.db exists, and nothing is overwritten/);
    const inPlace = await server.command('restore', 'copy.db');
    assert.match(inPlace.output, /the database .* exists; stop the server, move the file .* away/);

    // What happens later is not in it.
    await asks(server, '/chat/tool-result', { chatId: 'a', toolCallId, output: 'Zug' });
    await stream.toEnd();
    await server.kill();
    for (const file of readdirSync(server.folder).filter((name) => name.startsWith('chats.db')))
      renameSync(path.join(server.folder, file), path.join(server.folder, `old-${file}`));
    const restored = await server.command('restore', 'copy.db');
    assert.equal(restored.code, 0, restored.output);
    assert.deepEqual(
      readdirSync(server.folder).filter((name) => name.endsWith('.part')),
      [],
    );

    await server.start();
    const waits = await asks(server, '/api/chat/a/pending');
    assert.ok(waits.text.includes(toolCallId), waits.text);
    model.script(says('You are in Bern.'));
    const answered = await asks(server, '/chat/tool-result', { chatId: 'a', toolCallId, output: 'Bern' });
    assert.equal(answered.status, 200, answered.text);
    const isOver = async () => (await asks(server, '/api/chat/a')).text.includes('You are in Bern.');
    await until(isOver, 'the run to go on');
    assert.deepEqual(model.verdict, []);
  } finally {
    await server.discard();
    await model.stop();
  }
});

test('what is no backup is not restored, and what cannot be backed up says how it can', async () => {
  const server = new Server(1, {});
  try {
    const missing = await server.command('backup', 'copy.db');
    assert.match(missing.output, /there is no file .*chats\.db/);
    const nothing = await server.command('restore', 'nothing.db');
    assert.match(nothing.output, /there is no file nothing\.db/);
    for (const content of ['no database', '']) {
      writeFileSync(path.join(server.folder, 'other.db'), content);
      const other = await server.command('restore', 'other.db');
      assert.equal(other.code, 1);
      assert.match(other.output, /other\.db cannot be restored: /);
      assert.ok(!existsSync(path.join(server.folder, 'chats.db')));
    }
  } finally {
    await server.discard();
  }
  const postgres = new Server(1, { DATABASE_URL: 'postgres://nobody@localhost/nothing' });
  try {
    const made = await postgres.command('backup', 'copy.db');
    assert.equal(made.code, 1);
    assert.match(made.output, /pg_dump --format=custom/);
  } finally {
    await postgres.discard();
  }
});
