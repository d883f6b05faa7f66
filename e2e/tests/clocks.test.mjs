// @ts-check
// Clocks that are wrong: an instance on a machine whose date is wrong harms nothing that belongs to others,
// and a server on SQLite that starts with a wrong date destroys nothing at once.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clustered } from '../harness/cluster.mjs';
import { FakeOpenAi, API_KEY, calls, says } from '../harness/fake-openai.mjs';
import { freePort } from '../harness/ports.mjs';
import { clock } from '../harness/preload.mjs';
import { BROWSER_TOOLS } from '../harness/scenario.mjs';
import { Server } from '../harness/server.mjs';
import { until } from '../harness/until.mjs';

const tools = BROWSER_TOOLS;
const locate = { name: 'get_location', input: { accuracy: 'high' } };
const MONTHS_AHEAD = '+90d';
const MONTHS_BEHIND = '-90d';
/** Retention and expiry take effect within days. */
const forgetful = { FERMATA_KEEP: '7d', FERMATA_AUDIT_KEEP: '7d', FERMATA_EXPIRE: '1h' };

const faketime = clock;

if (faketime.missing !== undefined) {
  test('wrong clocks', { skip: faketime.missing }, () => {});
} else {
  /**
   * A command that becomes a program with another date. Its clock for durations stays as it is.
   * The program of this name would stand between the test and the server, which could then not be stopped.
   *
   * @param {string} date
   */
  const through = (date) => [
    'env',
    `LD_PRELOAD=${faketime.library}`,
    `FAKETIME=${date}`,
    'FAKETIME_DONT_FAKE_MONOTONIC=1',
    'FAKETIME_DISABLE_SHM=1',
  ];

  for (const date of [MONTHS_AHEAD, MONTHS_BEHIND]) {
    clustered(
      `an instance whose clock is at ${date} forgets nothing of others, settles nothing, and says what is wrong`,
      { instances: 1, settings: forgetful },
      async (cluster) => {
        const one = cluster.at(1);
        cluster.model.script(says('Hello.'), calls(locate));
        await (await cluster.at(1, 'old').post('hello')).toEnd();
        const stream = await one.post('where am I?', { tools, fermata: { client: 7, hold: '0s' } });
        const { toolCallId } = await stream.sees('tool-input-available');
        await stream.toEnd();

        const settings = {
          ...cluster.settings,
          ...forgetful,
          OPENAI_BASE_URL: cluster.model.url,
          OPENAI_API_KEY: API_KEY,
          FERMATA_MODEL: 'test-model',
        };
        const wrong = new Server(await freePort(), settings, through(date));
        cluster.servers.push(wrong);
        await wrong.start();
        await until(
          () => /this machine's clock is .* the database's/.test(wrong.log),
          () => `a warning about the clock:\n${wrong.log}`,
        );
        const ready = await fetch(`${wrong.url}/readyz`);
        assert.equal(ready.status, 200, 'the database tells it the time');
        assert.match(await ready.text(), /^ready\nwarning: This machine's clock is .* the database's/);
        const fine = await fetch(`${cluster.server(1).url}/readyz`);
        assert.equal(await fine.text(), 'ready\n');
        cluster.model.script(calls(locate));
        const own = await cluster.at(2, 'own').post('where am I?', { tools });
        const { toolCallId: second } = await own.sees('tool-input-available');
        const [row] = await cluster.database.rows(
          `select (runs.expires_at - extract(epoch from now()) * 1000000)::bigint as left from runs ` +
            `where chat_id = 'own'`,
        );
        const minutes = Number(row?.left) / 60e6;
        assert.ok(
          minutes > 50 && minutes <= 60,
          `the call expires in ${minutes} minutes by the clock of the database`,
        );
        assert.deepEqual(
          (await one.pending()).map(({ id }) => id),
          [toolCallId],
        );
        cluster.model.script(says('You are in Bern.'));
        await one.answer({ toolCallId, output: 'Bern' });
        await until(async () => !(await one.view()).open, 'the run to be over');
        assert.equal((await cluster.at(1, 'old').view()).messages.length, 2);
        assert.equal((await cluster.at(2, 'own').pending())[0]?.id, second);
        // Instances understand each other all the same: their messages to each other use the database's time.
        cluster.model.script(says('You are in Zug.'));
        await cluster.at(1, 'own').answer({ toolCallId: second, output: 'Zug' });
        await until(async () => !(await cluster.at(1, 'own').view()).open, 'the second run to be over');
      },
    );
  }

  test('a server on SQLite that starts with a wrong date settles nothing at once, and says why', async () => {
    const model = await FakeOpenAi.start();
    const settings = {
      ...forgetful,
      OPENAI_BASE_URL: model.url,
      OPENAI_API_KEY: API_KEY,
      FERMATA_MODEL: 'test-model',
    };
    /** @type {string[]} */
    const command = [];
    const server = new Server(await freePort(), settings, command);
    const ask = async (/** @type {string} */ path, /** @type {unknown} */ body = undefined) => {
      const posted =
        body === undefined
          ? {}
          : { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
      return fetch(server.url + path, posted);
    };
    const pending = async () =>
      /** @type {{ pending: { id: string }[] }} */ (
        await (await ask('/api/chat/a/pending')).json()
      ).pending.map(({ id }) => id);
    try {
      await server.start();
      model.script(calls(locate), says('You are in Bern.'));
      const body = {
        id: 'a',
        messages: [{ role: 'user', content: 'where am I?' }],
        tools,
        fermata: { client: 7, hold: '0s' },
      };
      await (await ask('/api/chat', body)).text();
      const before = await pending();
      assert.equal(before.length, 1);
      await server.end();
      for (const { date, words } of [
        { date: MONTHS_AHEAD, words: 'ahead of what was expected' },
        { date: MONTHS_BEHIND, words: 'behind the time that this database has seen' },
      ]) {
        command.splice(0, command.length, ...through(date));
        await server.start();
        await until(
          () => server.log.includes(words),
          () => `a warning about the clock:\n${server.log}`,
        );
        assert.deepEqual(await pending(), before);
        await server.end();
      }
      command.splice(0);
      await server.start();
      assert.equal(
        (await ask('/chat/tool-result', { chatId: 'a', toolCallId: before[0], output: 'Bern' })).status,
        200,
      );
    } finally {
      await server.discard();
      await model.stop();
    }
  });
}
