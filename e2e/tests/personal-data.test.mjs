// @ts-check
// All that is stored for a user, on both databases: taken along, deleted, and then in no file and no table.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { EventStream } from '../harness/events.mjs';
import { API_KEY, FakeOpenAi, calls, says } from '../harness/fake-openai.mjs';
import { freePort } from '../harness/ports.mjs';
import { BROWSER_TOOLS } from '../harness/scenario.mjs';
import { Server } from '../harness/server.mjs';
import { NO_SERVICES, Postgres } from '../harness/services.mjs';
import { until } from '../harness/until.mjs';

/** Stands in everything that Ann says, and nowhere else. */
const WORD = 'quokka4711';
/** Large enough to be stored outside of its message. */
const FILE = {
  type: 'file',
  mediaType: 'text/plain',
  filename: 'pets.txt',
  url: `data:text/plain,${`${WORD},`.repeat(200)}`,
};
const ANN = { authorization: 'Bearer the-token-of-ann-1234567890' };
const BOB = { authorization: 'Bearer the-token-of-bob-1234567890' };
const TOKENS =
  'ann:the-token-of-ann-1234567890,bob:the-token-of-bob-1234567890,carl:the-token-of-carl-1234567890';

/** A server with a few users. */
class World {
  /** @param {Server} server @param {FakeOpenAi} model @param {Postgres | undefined} database */
  constructor(server, model, database) {
    this.server = server;
    this.model = model;
    this.database = database;
  }

  /** @param {'sqlite' | 'postgres'} kind */
  static async start(kind) {
    const model = await FakeOpenAi.start();
    const database = kind === 'postgres' ? await Postgres.create() : undefined;
    const server = new Server(await freePort(), {
      OPENAI_BASE_URL: model.url,
      OPENAI_API_KEY: API_KEY,
      FERMATA_MODEL: 'test-model',
      FERMATA_BUILTIN: 'notes,memory',
      FERMATA_AUTH: 'token',
      FERMATA_TOKENS: TOKENS,
      ...(database && { DATABASE_URL: database.url }),
    });
    server.configure('[[policy]]\ntool = "write_note"\ndecision = "allow"\n');
    await server.start();
    return new World(server, model, database);
  }

  async stop() {
    await this.server.discard();
    await this.database?.drop();
    await this.model.stop();
  }

  /**
   * @param {string} method
   * @param {string} route
   * @param {Record<string, string>} who
   * @param {unknown} [body]
   * @returns {Promise<{ status: number, json: any }>}
   */
  async asks(method, route, who, body) {
    const response = await fetch(this.server.url + route, {
      method,
      headers: { 'content-type': 'application/json', ...who },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    return { status: response.status, json: text.startsWith('{') ? JSON.parse(text) : text };
  }

  /** One chat with a note, one that waits for the browser, and two memories: one was changed, the other deleted. */
  async annSaysMuch() {
    const { server, model } = this;
    model.script(
      calls({ name: 'write_note', input: { title: 'Pets', body: `a ${WORD}` } }),
      says(`noted, ${WORD}`),
    );
    const parts = [{ type: 'text', text: `note a ${WORD}` }, FILE];
    const first = { id: 'ann-1', messages: [{ role: 'user', parts }] };
    await (await EventStream.open(`${server.url}/api/chat`, { body: first, headers: ANN })).toEnd();
    const memory = await this.asks('POST', '/api/memories', ANN, { text: `Has a ${WORD}.` });
    await this.asks('PATCH', `/api/memories/${memory.json.id}`, ANN, { text: `Had a ${WORD}.` });
    const other = await this.asks('POST', '/api/memories', ANN, { text: `Feeds the ${WORD}.` });
    assert.equal((await this.asks('DELETE', `/api/memories/${other.json.id}`, ANN)).status, 204);
    model.script(calls({ name: 'get_location', input: { accuracy: WORD } }));
    const second = {
      id: 'ann-2',
      messages: [{ role: 'user', content: `where is the ${WORD}?` }],
      tools: BROWSER_TOOLS,
    };
    const stream = await EventStream.open(`${server.url}/api/chat`, { body: second, headers: ANN });
    const { toolCallId } = await stream.sees('tool-input-available');
    return { stream, toolCallId: String(toolCallId) };
  }

  async bobSaysLittle() {
    this.model.script(says('Hello, Bob.'));
    const body = { id: 'bob-1', messages: [{ role: 'user', content: 'a wombat' }] };
    await (await EventStream.open(`${this.server.url}/api/chat`, { body, headers: BOB })).toEnd();
    await this.asks('POST', '/api/memories', BOB, { text: 'Has a wombat.' });
  }

  /** Returns the places of the word. */
  async places() {
    if (this.database) {
      const tables = await this.database.rows(
        "select table_name from information_schema.tables where table_schema = 'public'",
      );
      const found = [];
      for (const { table_name: table } of tables) {
        const rows = await this.database.rows(`select 1 from "${table}" as t where t::text like '%${WORD}%'`);
        if (rows.length > 0) found.push(String(table));
      }
      return found.sort();
    }
    const files = readdirSync(this.server.folder).filter((name) => name.startsWith('chats.db'));
    return files.filter((name) => readFileSync(path.join(this.server.folder, name)).includes(WORD));
  }
}

/**
 * Returns the export of a user without the rows about exports, because each export adds one.
 *
 * @param {any} data
 */
const withoutExports = (data) => ({
  ...data,
  exportedAt: '',
  decisions: data.decisions.filter((/** @type {any} */ { event }) => event !== 'data_exported'),
});

for (const kind of /** @type {const} */ (['sqlite', 'postgres'])) {
  const skip = kind === 'postgres' && NO_SERVICES;

  test(`a user takes along all that is stored for them, and nobody else's (${kind})`, { skip }, async () => {
    const world = await World.start(kind);
    try {
      await world.bobSaysLittle();
      await world.annSaysMuch();
      const { status, json: data } = await world.asks('GET', '/api/me/data', ANN);
      assert.equal(status, 200);
      assert.equal(data.owner, 'ann');
      assert.deepEqual(
        data.chats.map((/** @type {any} */ chat) => [chat.id, chat.title, chat.messages.length]),
        [
          ['ann-2', `where is the ${WORD}?`, 1],
          ['ann-1', `note a ${WORD}`, 2],
        ],
      );
      const shown = await world.asks('GET', '/api/chat/ann-1', ANN);
      assert.deepEqual(data.chats[1].messages, shown.json.messages);
      assert.deepEqual(data.chats[1].messages[0].parts[1], FILE);
      assert.deepEqual(
        data.memories.map((/** @type {any} */ memory) => memory.text),
        [`Had a ${WORD}.`],
      );
      assert.deepEqual(
        data.notes.map((/** @type {any} */ note) => [note.title, note.body]),
        [['Pets', `a ${WORD}`]],
      );
      assert.deepEqual(
        data.decisions
          .filter((/** @type {any} */ { tool }) => tool !== undefined)
          .map((/** @type {any} */ decision) => [decision.event, decision.tool, decision.chatId]),
        [
          ['rule_allowed', 'write_note', 'ann-1'],
          ['rule_allowed', 'get_location', 'ann-2'],
        ],
      );
      // An operator gets the same.
      const printed = await world.server.command('data', 'export', 'ann');
      assert.equal(printed.code, 0, printed.output);
      assert.deepEqual(withoutExports(JSON.parse(printed.output)), withoutExports(data));
      const carl = await world.asks('GET', '/api/me/data', {
        authorization: 'Bearer the-token-of-carl-1234567890',
      });
      assert.deepEqual(withoutExports(carl.json), {
        owner: 'carl',
        exportedAt: '',
        chats: [],
        memories: [],
        notes: [],
        decisions: [],
      });
    } finally {
      await world.stop();
    }
  });

  test(
    `after a deletion no word of a user is in a file or a table, and the others keep theirs (${kind})`,
    { skip },
    async () => {
      const world = await World.start(kind);
      try {
        await world.bobSaysLittle();
        const parked = await world.annSaysMuch();
        const places = await world.places();
        assert.ok(world.database ? places.includes('files') : places.length > 0, `${places}`);
        const deleted = await world.asks('DELETE', '/api/me/data', ANN);
        assert.deepEqual([deleted.status, deleted.json], [200, { chats: 2, memories: 1, notes: 1 }]);
        // The run that waited is stopped.
        await parked.stream.toEnd();
        await until(async () => (await world.places()).length === 0, 'the word to be gone');
        const { json: left } = await world.asks('GET', '/api/me/data', ANN);
        assert.deepEqual([left.chats, left.memories, left.notes], [[], [], []]);
        // Who allowed what is kept, without a word of it.
        const kept = left.decisions.map((/** @type {any} */ { event }) => event);
        assert.equal(kept.filter((/** @type {string} */ event) => event === 'rule_allowed').length, 2);
        assert.deepEqual(kept.slice(-3), ['memories_deleted', 'data_deleted', 'data_exported']);
        const { json: bobs } = await world.asks('GET', '/api/me/data', BOB);
        assert.deepEqual([bobs.chats.length, bobs.memories.length], [1, 1]);
        const again = await world.asks('DELETE', '/api/me/data', ANN);
        assert.deepEqual([again.status, again.json], [200, { chats: 0, memories: 0, notes: 0 }]);
      } finally {
        await world.stop();
      }
    },
  );

  test(
    `an operator deletes a user's data while the server runs one of the chats (${kind})`,
    { skip },
    async () => {
      const world = await World.start(kind);
      try {
        await world.bobSaysLittle();
        const parked = await world.annSaysMuch();
        const deleted = await world.server.command('data', 'delete', 'ann');
        assert.equal(deleted.code, 0, deleted.output);
        assert.match(
          deleted.output,
          /^deleted 2 chats, 1 memories and 1 notes; the audit \(audit_events\) is kept/,
        );
        // An answer to what is gone brings nothing back.
        const answer = { chatId: 'ann-2', toolCallId: parked.toolCallId, output: WORD };
        const answered = await world.asks('POST', '/chat/tool-result', ANN, answer);
        assert.ok([404, 409, 410].includes(answered.status), `${answered.status}`);
        await parked.stream.toEnd();
        await until(async () => (await world.places()).length === 0, 'the word to be gone');
        assert.equal((await world.asks('GET', '/api/chat/ann-2', ANN)).status, 404);
        assert.equal((await world.asks('GET', '/api/chat/bob-1', BOB)).status, 200);
      } finally {
        await world.stop();
      }
    },
  );

  test(`a user lists their notes page by page and deletes one (${kind})`, { skip }, async () => {
    const world = await World.start(kind);
    try {
      for (const n of [1, 2, 3]) {
        world.model.script(
          calls({ name: 'write_note', input: { title: `Note ${n}`, body: 'x' } }),
          says('noted'),
        );
        const body = { id: `c${n}`, messages: [{ role: 'user', content: 'note it' }] };
        await (await EventStream.open(`${world.server.url}/api/chat`, { body, headers: ANN })).toEnd();
      }
      const first = await world.asks('GET', '/api/notes?limit=2', ANN);
      assert.deepEqual(
        first.json.notes.map((/** @type {any} */ note) => note.title),
        ['Note 3', 'Note 2'],
      );
      const [, second] = first.json.notes;
      assert.equal((await world.asks('DELETE', `/api/notes/${second.id}`, BOB)).status, 404);
      assert.equal((await world.asks('DELETE', `/api/notes/${second.id}`, ANN)).status, 204);
      assert.equal((await world.asks('DELETE', `/api/notes/${second.id}`, ANN)).status, 404);
      // The last note of the page is gone, and the next page begins behind it all the same.
      const rest = await world.asks(
        'GET',
        `/api/notes?limit=2&before=${encodeURIComponent(first.json.next)}`,
        ANN,
      );
      assert.deepEqual(
        rest.json.notes.map((/** @type {any} */ note) => note.title),
        ['Note 1'],
      );
      assert.equal(rest.json.next, undefined);
      assert.equal((await world.asks('GET', '/api/notes?query=NOTE%203', ANN)).json.notes.length, 1);
      assert.equal((await world.asks('GET', '/api/notes?before=x', ANN)).status, 422);
      assert.equal((await world.asks('GET', '/api/notes?limit=0', ANN)).status, 422);
      assert.equal((await world.asks('GET', '/api/notes', BOB)).json.notes.length, 0);
    } finally {
      await world.stop();
    }
  });
}
