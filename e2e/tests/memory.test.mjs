// @ts-check
// What is known of a user in all chats, on both databases: through tools, summaries, vectors, crashes and restarts.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { API_KEY, FakeOpenAi, calls, says } from '../harness/fake-openai.mjs';
import { freePort } from '../harness/ports.mjs';
import { Server } from '../harness/server.mjs';
import { NO_SERVICES, Postgres } from '../harness/services.mjs';
import { until } from '../harness/until.mjs';

/** @typedef {{ id: string, text: string, kind: string, slot?: string, chatId?: string, messageId?: string }} Memory */

/** A server that remembers, and its model. */
class World {
  /**
   * @param {Server} server
   * @param {FakeOpenAi} model
   * @param {Postgres | undefined} database
   */
  constructor(server, model, database) {
    this.server = server;
    this.model = model;
    this.database = database;
  }

  /**
   * @param {'sqlite' | 'postgres'} kind
   * @param {string} [file] the file of settings
   */
  static async start(kind, file = '') {
    const model = await FakeOpenAi.start();
    const database = kind === 'postgres' ? await Postgres.create() : undefined;
    const server = new Server(await freePort(), {
      OPENAI_BASE_URL: model.url,
      OPENAI_API_KEY: API_KEY,
      FERMATA_MODEL: 'test-model',
      FERMATA_BUILTIN: 'memory',
      ...(database && { DATABASE_URL: database.url }),
    });
    server.configure(file);
    await server.start();
    return new World(server, model, database);
  }

  async stop() {
    await this.server.discard();
    await this.database?.drop();
    await this.model.stop();
  }

  /**
   * @param {string} chat
   * @param {string} text
   * @param {Record<string, unknown>} [fermata]
   */
  async says(chat, text, fermata = {}) {
    const message = { role: 'user', parts: [{ type: 'text', text }] };
    const response = await fetch(`${this.server.url}/api/chat`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ id: chat, message, fermata }),
    });
    const stream = await response.text();
    assert.match(stream, /"type":"finish"/, stream);
    return stream;
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {unknown} [body]
   * @returns {Promise<any>}
   */
  async api(method, path, body) {
    const response = await fetch(`${this.server.url}${path}`, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    assert.ok(response.ok, `${method} ${path}: ${response.status}`);
    return response.status === 204 ? undefined : response.json();
  }

  /** @returns {Promise<Memory[]>} */
  async memories(query = '') {
    return (await this.api('GET', `/api/memories${query}`)).memories;
  }

  /** The last user message as the model was sent it. */
  get told() {
    return String(this.model.requests.at(-1)?.words.findLast((words) => words.startsWith('user: ')));
  }
}

for (const kind of /** @type {const} */ (['sqlite', 'postgres'])) {
  const skip = kind === 'postgres' ? NO_SERVICES : undefined;

  test(
    `what is remembered in one chat is told in the next, also after a restart: ${kind}`,
    { skip },
    async () => {
      const world = await World.start(kind);
      try {
        const input = { text: "Anna's favourite colour is turquoise.", kind: 'preference' };
        world.model.script(calls({ name: 'remember', input }), says('Noted.'), says('Turquoise.'));
        const stream = await world.says('a', 'Remember it, please.', { show: ['memory'] });
        assert.match(stream, /"type":"data-memory".*"saved":\[\{"id":"mem_/);
        const [memory] = await world.memories();
        assert.equal(memory?.chatId, 'a');
        await world.server.kill();
        await world.server.start();
        await world.says('b', "What is Anna's favourite colour?");
        assert.match(world.told, /turquoise.*\n.*What is Anna's/s);
        await world.api('DELETE', '/api/chat/a');
        assert.equal(
          (await world.memories())[0]?.chatId,
          undefined,
          'the chat is gone, and the memory stays',
        );
        assert.deepEqual(world.model.verdict, []);
      } finally {
        await world.stop();
      }
    },
  );

  test(`a run that is cut off goes on with what it was told first: ${kind}`, { skip }, async () => {
    const world = await World.start(kind);
    try {
      await world.api('POST', '/api/memories', { text: 'Anna likes turquoise.' });
      await world.api('POST', '/api/memories', { text: 'The user is called Beatrix.', slot: 'name' });
      world.model.script(async (pen) => {
        pen.says('Anna ');
        await pen.gone;
      }, says('Anna likes turquoise.'));
      const body = {
        id: 'c',
        message: { role: 'user', parts: [{ type: 'text', text: 'What does Anna like?' }] },
      };
      const cut = fetch(`${world.server.url}/api/chat`, { method: 'POST', body: JSON.stringify(body) })
        .then((response) => response.text())
        .catch(() => '');
      await until(() => world.model.requests.length === 1, 'the model is asked');
      await world.server.kill();
      await cut;
      await world.server.start();
      await world.api('DELETE', '/api/memories');
      await until(() => world.model.requests.length === 2, 'the model is asked again');
      const [first, second] = world.model.requests;
      assert.deepEqual(second?.messages, first?.messages);
      await until(async () => !(await world.api('GET', '/api/chat/c')).open, 'the end of the run');
      assert.deepEqual(world.model.verdict, []);
    } finally {
      await world.stop();
    }
  });

  test(
    `memories are found by meaning, by words if need be, and embedded anew: ${kind}`,
    { skip },
    async () => {
      const world = await World.start(kind, 'embedding_model = "first-embedding"\n');
      try {
        world.model.improvise = () => says('ok');
        await world.api('POST', '/api/memories', { text: 'Drives an old automobile.' });
        await world.api('POST', '/api/memories', { text: 'No walnuts, please.' });
        await world.says('a', 'Which vehicle do I have?');
        assert.match(world.told, /automobile/);
        assert.doesNotMatch(world.told, /walnuts/);

        world.model.embeds = 503;
        await world.says('b', 'Is my automobile old?');
        assert.match(world.told, /Drives an old automobile/, 'by words');
        await world.says('c', 'Which vehicle do I have?');
        assert.doesNotMatch(world.told, /automobile/);

        world.model.embeds = 'vectors';
        await world.server.reconfigure('embedding_model = "second-embedding"\n');
        const anew = () => world.model.embedded.filter(({ model }) => model === 'second-embedding');
        await until(() => anew().some(({ texts }) => texts.length === 2), 'both are embedded anew');
        await until(async () => {
          await world.says('d', 'Which vehicle do I have?');
          return /automobile/.test(world.told);
        }, 'it is found by the new vectors');
        assert.deepEqual(world.model.verdict, []);
      } finally {
        await world.stop();
      }
    },
  );

  test(`a summary notes facts, and a post may be left out of all of it: ${kind}`, { skip }, async () => {
    const world = await World.start(
      kind,
      'summary_model = "summary-model"\nkeep_recent = 1\nsummary_every = 1\n',
    );
    try {
      const memories = [
        { op: 'new', kind: 'fact', text: 'The user is called Beatrix.', slot: 'name' },
        { op: 'new', kind: 'preference', text: 'Likes roses.' },
      ];
      world.model.improvise = (request) =>
        says(request.model === 'summary-model' ? JSON.stringify({ goal: 'a garden', memories }) : 'ok');
      await world.says('off', 'My name is Beatrix, and I like roses.', { memory: false });
      await world.says('off', 'And now?', { memory: false });
      await until(
        async () => (await fetch(`${world.server.url}/api/chat/off/summary`)).ok,
        () => `a summary:\n${world.server.log}`,
      );
      assert.deepEqual(await world.memories(), []);

      await world.says('on', 'My name is Beatrix, and I like roses.');
      await world.says('on', 'And now?');
      await until(async () => (await world.memories()).length === 2, 'two memories');
      const roses = (await world.memories('?kind=preference'))[0];
      assert.deepEqual([roses?.text, roses?.chatId], ['Likes roses.', 'on']);
      // Only a person may give a memory a slot, so that it is in every prompt.
      assert.ok((await world.memories()).every(({ slot }) => slot === undefined));
      await world.says('next', 'Am I called Beatrix?');
      assert.match(world.told, /The user is called Beatrix/);
      await world.api('POST', `/api/memories/${roses?.id}/undo`);
      assert.equal((await world.memories()).length, 1);
      await world.api('DELETE', '/api/chat/on?memories=true');
      assert.deepEqual(await world.memories(), []);
      assert.deepEqual(world.model.verdict, []);
    } finally {
      await world.stop();
    }
  });
}
