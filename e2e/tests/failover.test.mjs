// @ts-check
// Instances that end, stand still or cannot reach each other: another one takes over, and no message arrives
// twice.

import assert from 'node:assert/strict';
import http from 'node:http';
import { describe, test } from 'node:test';
import { clustered } from '../harness/cluster.mjs';
import { freePort } from '../harness/ports.mjs';
import { NO_SERVER, PostgresServer } from '../harness/postgres-server.mjs';
import { Server } from '../harness/server.mjs';
import { EventStream } from '../harness/events.mjs';
import { API_KEY, FakeOpenAi, calls, says } from '../harness/fake-openai.mjs';
import { byHand, journal, letGo } from '../harness/mcp.mjs';
import { messageOf } from '../harness/message.mjs';
import { VERSIONS } from '../harness/clients.mjs';
import { BROWSER_TOOLS } from '../harness/scenario.mjs';
import { gate, until } from '../harness/until.mjs';

/** @typedef {import('../harness/cluster.mjs').Cluster} Cluster */
/** @typedef {import('../harness/cluster.mjs').At} At */

const tools = BROWSER_TOOLS;
const locate = { name: 'get_location', input: { accuracy: 'high' } };
const work = (/** @type {string} */ key) => ({ name: 'hand__work', input: { key } });
const hand = (/** @type {Cluster} */ cluster) => byHand(cluster, { tools: ['work'] });

/**
 * Returns the result of a request on a connection of its own: the status of a whole answer, or the error of the connection.
 *
 * @param {URL} url
 * @returns {Promise<string>}
 */
const answerOf = (url) =>
  new Promise((resolve) => {
    const request = http.get(url, { agent: false }, (response) => {
      response.on('error', (/** @type {NodeJS.ErrnoException} */ error) => resolve(`${error.code}`));
      response.on('end', () => resolve(`${response.statusCode}`)).resume();
    });
    request.on('error', (/** @type {NodeJS.ErrnoException} */ error) => resolve(`${error.code}`));
  });

/** In how many chats two instances are made to meet. */
const MANY = 24;

/** @param {EventStream} stream */
const textOf = ({ chunks }) =>
  chunks.flatMap(({ type, delta }) => (type === 'text-delta' ? [delta] : [])).join('');

/**
 * @param {At} at @returns {Promise<import('../harness/page.mjs').Message[]>} the record, once nothing is open
 */
const recordAt = async (at) => {
  const view = await until(async () => {
    const view = await at.view();
    return !view.open && view.pending.length === 0 && view;
  }, 'the run to be over');
  return view.messages;
};

/** All that one instance was sent of a message, as text. @param {EventStream} stream */
const bytesOf = ({ events }) => events.map(({ id, chunk }) => `${id} ${JSON.stringify(chunk)}`);

/**
 * Parks a call at the first instance in each of many chats, and kills it.
 *
 * @param {Cluster} cluster
 * @returns {Promise<Map<string, unknown>>} the calls by chat
 */
async function parksMany(cluster) {
  const parked = new Map();
  for (let place = 0; place < MANY; place += 1) {
    const chat = `chat-${place}`;
    cluster.model.script(calls(locate));
    const stream = await cluster.at(1, chat).post('where am I?', { tools });
    parked.set(chat, (await stream.sees('tool-input-available')).toolCallId);
  }
  cluster.model.improvise = () => says('You are in Bern.');
  await cluster.server(1).kill();
  return parked;
}

describe('the owner is killed', { concurrency: 4 }, () => {
  clustered(
    'while it is parked: readers elsewhere stay connected, and an answer is taken',
    {},
    async (cluster) => {
      const two = cluster.at(2);
      cluster.model.script(calls(locate), says('You are in Bern.'));
      const stream = await cluster.at(1).post('where am I?', { tools });
      const { toolCallId } = await stream.sees('tool-input-available');
      const reader = await two.follow();
      await reader.sees('tool-input-available');
      await cluster.server(1).kill();
      await until(
        () => / another instance is gone; .* gone=ins_\w+ version="\d+\.\d+\.\d+/.test(cluster.server(2).log),
        () => `a word about it:\n${cluster.server(2).log}`,
      );
      assert.deepEqual(
        (await two.pending()).map(({ id }) => id),
        [toolCallId],
      );
      await two.answer({ toolCallId, output: 'Bern' });
      await reader.toEnd();
      assert.ok(reader.done, reader.outline);
      assert.ok(!reader.chunks.some(({ type }) => type === 'error'), reader.outline);
      assert.equal(textOf(reader), 'You are in Bern.');
      assert.equal(new Set(reader.events.map(({ id }) => id)).size, reader.events.length);
    },
  );

  for (const version of VERSIONS) {
    clustered(
      `while it streams to version ${version}: another goes on by asking the model again`,
      {},
      async (cluster) => {
        const two = cluster.at(2);
        const never = gate();
        cluster.model.script(async (pen) => {
          pen.says('Half a ');
          await never.opened;
        });
        const stream = await cluster.at(1).post('talk', { fermata: { client: version } });
        await stream.sees('text-delta');
        const reader = await two.follow();
        await reader.sees('text-delta');
        const whole = gate();
        cluster.model.script(async (pen) => {
          pen.says('A whole ');
          await whole.opened;
          pen.says('sentence.');
        });
        await cluster.server(1).kill();
        await until(
          () => cluster.model.requests.length === 2,
          'the model to be asked again, though nobody asks for the chat',
        );
        if (version === 7) await reader.sees('reset-step');
        else await reader.toEnd();
        const again = version === 7 ? reader : await two.follow();
        whole.open();
        never.open();
        await again.toEnd();
        assert.ok(again.done, again.outline);
        if (version !== 7) {
          assert.equal(reader.chunks.at(-1)?.type, 'error', reader.outline);
          assert.ok(!reader.chunks.some(({ type }) => type === 'finish'), reader.outline);
          assert.ok(again.status === 200 && again.chunks[0]?.type === 'start', again.outline);
        }
        const shown = await messageOf(again.chunks, version);
        const texts = shown.parts.flatMap(({ type, text }) => (type === 'text' ? [text] : []));
        assert.deepEqual(texts, ['A whole sentence.']);
        const stored = (await recordAt(two))
          .at(-1)
          ?.parts.flatMap(({ type, text }) => (type === 'text' ? [text] : []));
        assert.deepEqual(stored, texts);
      },
    );
  }

  const repeatable = (/** @type {Cluster} */ cluster) =>
    `${hand(cluster)}[tools."hand__*"]\nrepeatable = true\n`;
  const notRepeatable = (/** @type {Cluster} */ cluster) =>
    `${hand(cluster)}[tools."hand__*"]\nrepeatable = false\n`;
  clustered('while a repeatable call runs: it runs again', { config: repeatable }, async (cluster) => {
    for (const place of [1, 2]) await cluster.at(place).offers('hand__work');
    cluster.model.script(calls(work('door')), says('Worked.'));
    const begun = () => journal(cluster).filter(({ event }) => event === 'begin').length;
    await cluster.at(1).post('work');
    await until(() => begun() === 1, 'the call to run');
    const reader = await cluster.at(2).follow();
    await cluster.server(1).kill();
    await until(() => begun() === 2, 'the call to run again');
    letGo(cluster, 'door');
    await reader.toEnd();
    assert.ok(reader.done && textOf(reader) === 'Worked.', reader.outline);
    assert.equal(begun(), 2);
  });

  clustered(
    'while any other call runs: it has failed, and says why',
    { config: notRepeatable },
    async (cluster) => {
      for (const place of [1, 2]) await cluster.at(place).offers('hand__work');
      cluster.model.script(calls(work('door')), says('It may have worked.'));
      const begun = () => journal(cluster).filter(({ event }) => event === 'begin').length;
      await cluster.at(1).post('work');
      await until(() => begun() === 1, 'the call to run');
      const reader = await cluster.at(2).follow();
      await cluster.server(1).kill();
      await reader.toEnd();
      assert.ok(reader.done, reader.outline);
      const failed = reader.chunks.find(({ type }) => type === 'tool-output-error');
      assert.match(String(failed?.errorText), /may or may not/);
      assert.equal(textOf(reader), 'It may have worked.');
      assert.equal(begun(), 1);
    },
  );

  clustered(
    'and two others are asked for its chats at once: one takes up each, the other knows',
    { instances: 3 },
    async (cluster) => {
      const chats = await parksMany(cluster);
      for (const [chat, toolCallId] of chats) {
        const [two, three] = [cluster.at(2, chat), cluster.at(3, chat)];
        const answer = { toolCallId, output: 'Bern' };
        const [here, there] = await Promise.all([two.answer(answer), three.answer(answer)]);
        assert.deepEqual(here, there);
        assert.match(JSON.stringify((await recordAt(two)).at(-1)), /You are in Bern/);
      }
    },
  );

  clustered(
    'and two others are posted new messages at once: each is taken, or refused in so many words',
    { instances: 3 },
    async (cluster) => {
      for (const chat of (await parksMany(cluster)).keys()) {
        const places = [2, 3];
        let isRepeated = false;
        const taken = await Promise.all(
          places.map((place) =>
            until(async () => {
              const words = [{ type: 'text', text: `never mind, ${place}` }];
              const stream = await cluster
                .at(place, chat)
                .post([{ id: `u-${place}`, role: 'user', parts: words }], { tools });
              // Where it says that it is not known whether the post was taken, it is sent again, and may be
              // nothing new then.
              isRepeated ||= stream.status === 504;
              return stream.status !== 503 && stream.status !== 504 && stream;
            }, 'a post to be answered'),
          ),
        );
        for (const { status, rest } of taken)
          assert.ok(status === 200 || (status === 409 && isRepeated), rest);
        await Promise.all(taken.map((stream) => stream.toEnd()));
        const said = JSON.stringify(
          (await recordAt(cluster.at(2, chat))).filter(({ role }) => role === 'user'),
        );
        for (const place of places) assert.match(said, new RegExp(`never mind, ${place}`));
      }
    },
  );

  clustered('and what it left parked expires', { settings: { FERMATA_EXPIRE: '3s' } }, async (cluster) => {
    cluster.model.script(calls(locate));
    const stream = await cluster.at(1).post('where am I?', { tools });
    const { toolCallId } = await stream.sees('tool-input-available');
    await cluster.server(1).kill();
    // Read from the database: asking for the chat would have it taken up.
    const [row] = await until(async () => {
      const found = await cluster.database.rows(
        `select state, outcome from tool_calls where id = '${toolCallId}'`,
      );
      return found[0]?.state !== 'executing' && found;
    }, 'the call to be settled, though nobody asks for the chat');
    assert.equal(row?.state, 'cancelled');
    assert.match(JSON.stringify(row?.outcome), /expired/);
    const late = await cluster.at(2).tries({ toolCallId, output: 1 });
    assert.deepEqual([late.status, late.body.code], [410, 'gone']);
  });
});

describe('the owner stands still past its lease and comes back', { concurrency: 2 }, () => {
  clustered('while it is parked: it writes nothing more', {}, async (cluster) => {
    const [one, two] = [cluster.at(1), cluster.at(2)];
    cluster.model.script(calls(locate), says('You are in Bern.'));
    const stream = await one.post('where am I?', { tools });
    const { toolCallId } = await stream.sees('tool-input-available');
    cluster.server(1).signal('SIGSTOP');
    const reader = await two.follow();
    const taken = await two.answer({ toolCallId, output: 'Bern' });
    await reader.toEnd();
    assert.ok(reader.done, reader.outline);
    const record = await recordAt(two);
    cluster.server(1).signal('SIGCONT');
    await stream.toEnd();
    assert.deepEqual(await recordAt(one), record);
    assert.deepEqual(await recordAt(two), record);
    assert.deepEqual(await one.answer({ toolCallId, output: 'Bern' }), taken);
    assert.equal((await one.tries({ toolCallId, output: 'Basel' })).status, 409);
    cluster.model.script(says('Any time.'));
    assert.equal(textOf(await (await one.post('thanks')).toEnd()), 'Any time.');
    assert.equal(cluster.model.requests.length, 3);
  });

  clustered('while it streams: what it heard meanwhile is not shown and not stored', {}, async (cluster) => {
    const [one, two] = [cluster.at(1), cluster.at(2)];
    const rest = gate();
    cluster.model.script(async (pen) => {
      pen.says('Half a ');
      await rest.opened;
      pen.says('truth.');
    });
    const stream = await one.post('talk');
    await stream.sees('text-delta');
    cluster.model.script(says('A whole sentence.'));
    cluster.server(1).signal('SIGSTOP');
    await until(() => cluster.model.requests.length === 2, 'another to take over');
    const record = await recordAt(two);
    rest.open();
    cluster.server(1).signal('SIGCONT');
    await stream.toEnd();
    assert.doesNotMatch(JSON.stringify(await recordAt(one)), /truth/);
    assert.deepEqual(await recordAt(one), record);
    assert.deepEqual(await recordAt(two), record);
    assert.match(JSON.stringify(record), /A whole sentence/);
  });
});

describe('Redis goes away', { concurrency: 2 }, () => {
  clustered(
    'streams where the run is driven go on, other instances say 503, and it heals by itself',
    {},
    async (cluster) => {
      const [one, two] = [cluster.at(1), cluster.at(2)];
      const rest = gate();
      cluster.model.script(async (pen) => {
        pen.says('One, ');
        await rest.opened;
        pen.says('two.');
        pen.calls(locate);
      }, says('You are in Bern.'));
      const stream = await one.post('count, and say where I am', { tools });
      await stream.sees('text-delta');
      await cluster.redis.stop();
      rest.open();
      const { toolCallId } = await stream.sees('tool-input-available');
      assert.equal(textOf(stream), 'One, two.');
      for (const refused of [await two.triesToFollow(), await two.tries({ toolCallId, output: 'Bern' })]) {
        assert.equal(refused.status, 503);
        assert.ok(Number(refused.headers.get('retry-after')) > 0);
      }
      assert.deepEqual(
        (await one.pending()).map(({ id }) => id),
        [toolCallId],
      );

      await cluster.redis.start();
      const reader = await two.follow();
      await reader.sees('tool-input-available');
      await two.answer({ toolCallId, output: 'Bern' });
      await Promise.all([stream.toEnd(), reader.toEnd()]);
      assert.ok(stream.done && reader.done);
      assert.deepEqual(bytesOf(reader), bytesOf(stream));
      assert.match(textOf(stream), /You are in Bern/);
    },
  );

  clustered('an answer where the run is driven is taken all the same', {}, async (cluster) => {
    cluster.model.script(calls(locate), says('You are in Bern.'));
    const stream = await cluster.at(1).post('where am I?', { tools });
    const { toolCallId } = await stream.sees('tool-input-available');
    const reader = await cluster.at(2).follow();
    await reader.sees('tool-input-available');
    await cluster.redis.stop();
    await cluster.at(1).answer({ toolCallId, output: 'Bern' });
    await stream.toEnd();
    assert.ok(stream.done && textOf(stream) === 'You are in Bern.');
    // A reader whose chunks were lost is not left waiting for ever, and is not told that the message is
    // whole.
    await cluster.redis.start();
    await reader.toEnd();
    if (reader.done) assert.equal(textOf(reader), 'You are in Bern.');
  });
});

describe('PostgreSQL goes away', () => {
  test('the log says so once, and how long it was away', { skip: NO_SERVER ?? false }, async () => {
    const [model, database] = await Promise.all([FakeOpenAi.start(), PostgresServer.start()]);
    const server = new Server(await freePort(), {
      DATABASE_URL: database.url,
      OPENAI_BASE_URL: model.url,
      OPENAI_API_KEY: API_KEY,
      FERMATA_MODEL: 'test-model',
    });
    try {
      await server.start();
      const rest = gate();
      model.script(async (pen) => {
        pen.says('One, ');
        await rest.opened;
        pen.says('two.');
      });
      const body = { id: 'chat-1', messages: [{ role: 'user', content: 'count' }], fermata: { client: 7 } };
      const stream = await EventStream.open(`${server.url}/api/chat`, { body });
      await stream.sees('text-delta');
      await database.stop();
      rest.open();
      await until(
        () => / WARN .* the database is away; /.test(server.log),
        () => server.log,
      );
      await database.start();
      await stream.toEnd();
      assert.ok(stream.done && textOf(stream) === 'One, two.', stream.outline);
      await until(
        () => / INFO .* the database is back instance=ins_\w+ after=\d/.test(server.log),
        () => server.log,
      );
      assert.equal(server.log.split('the database is away').length, 2, server.log);
    } finally {
      await Promise.all([server.discard(), model.stop(), database.discard()]);
    }
  });
});

describe('an instance is ended in good order', { concurrency: 2 }, () => {
  clustered(
    'while proxies notice it, it does everything as ever, and only then are streams sent away',
    { settings: { FERMATA_LINGER: '6s' } },
    async (cluster) => {
      const [one, parkedBefore] = [cluster.at(1), cluster.at(1, 'chat-before')];
      cluster.model.script(calls(locate), calls(locate), says('You are in Bern.'), says('Hello.'));
      const before = await parkedBefore.post('where am I?', { tools });
      await before.sees('tool-input-available');
      cluster.server(1).signal('SIGTERM');
      await until(
        async () => (await one.request('GET', '/readyz')).status === 503,
        'the instance not to be ready',
      );
      const stream = await one.post('where am I?', { tools });
      assert.equal(stream.status, 200);
      const { toolCallId } = await stream.sees('tool-input-available');
      assert.equal((await one.tries({ toolCallId, output: 'Bern' })).status, 200);
      await stream.toEnd();
      assert.ok(stream.done && textOf(stream) === 'You are in Bern.', stream.outline);
      assert.ok(JSON.stringify(await recordAt(one)).includes('You are in Bern.'));
      await (await cluster.at(1, 'chat-new').post('hello')).toEnd();
      assert.ok(!before.ended && !cluster.server(1).log.includes('draining: '), cluster.server(1).log);
      await before.toEnd();
      assert.equal(before.chunks.at(-1)?.type, 'error', before.outline);
      await until(() => !cluster.server(1).alive, 'the instance to end');
      const { log } = cluster.server(1);
      assert.match(log, / leaving: \/readyz fails from now on, and everything is still served for 6s\n/);
      assert.match(log, / drained .* moved=1 finished=0 cut=0 refused=0\n/);
      assert.equal(cluster.model.requests.length, 4);
    },
  );

  clustered(
    'each connection that is accepted gets an answer, until connections are refused',
    { settings: { FERMATA_LINGER: '1s' } },
    async (cluster) => {
      const url = new URL('/api/chats', cluster.server(1).url);
      /** @type {Set<string>} */
      const outcomes = new Set();
      const asks = async () => {
        for (;;) {
          const outcome = await answerOf(url);
          outcomes.add(outcome);
          if (outcome === 'ECONNREFUSED') return;
        }
      };
      const asking = Promise.all(Array.from({ length: 8 }, asks));
      await until(() => outcomes.has('200'), 'answers');
      cluster.server(1).signal('SIGTERM');
      await asking;
      assert.deepEqual([...outcomes].toSorted(), ['200', 'ECONNREFUSED']);
      await until(() => !cluster.server(1).alive, 'the instance to end');
      assert.equal(cluster.server(1).exitCode, 0);
    },
  );

  clustered(
    'no connection is refused while two instances on one port are replaced in turns',
    { instances: 0 },
    async (cluster) => {
      const port = await freePort();
      const starts = async () => {
        const server = new Server(port, { ...cluster.settings, FERMATA_REUSE_PORT: 'true' });
        cluster.servers.push(server);
        await server.start();
        // The other one may have answered for it.
        await until(
          () => server.log.includes('listening on'),
          () => server.log,
        );
        return server;
      };
      let server = await starts();
      const url = new URL('/api/chats', server.url);
      /** @type {Map<string, number>} */
      const outcomes = new Map();
      let isOver = false;
      const asks = async () => {
        while (!isOver) {
          const outcome = await answerOf(url);
          outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
        }
      };
      const asking = Promise.all(Array.from({ length: 8 }, asks));
      for (let replaced = 0; replaced < 4; replaced += 1) {
        const next = await starts();
        await server.end();
        server = next;
      }
      isOver = true;
      await asking;
      assert.deepEqual([...outcomes.keys()], ['200']);
    },
  );

  clustered(
    'while it is parked: its readers are sent away with an error, another takes over',
    {},
    async (cluster) => {
      const two = cluster.at(2);
      cluster.model.script(calls(locate), says('You are in Bern.'));
      const stream = await cluster.at(1).post('where am I?', { tools });
      const { toolCallId } = await stream.sees('tool-input-available');
      const reader = await two.follow();
      await reader.sees('tool-input-available');
      await cluster.server(1).end();
      await stream.toEnd();
      assert.equal(stream.chunks.at(-1)?.type, 'error', stream.outline);
      // Readers elsewhere may stay, or be sent away in the same manner.
      const ended = reader.chunks.some(({ type }) => type === 'error');
      const again = ended ? await two.follow() : reader;
      await two.answer({ toolCallId, output: 'Bern' });
      await again.toEnd();
      assert.ok(again.done && textOf(again) === 'You are in Bern.', again.outline);
      const { log } = cluster.server(1);
      assert.match(log, / draining: .* runs=1\n/);
      assert.match(log, / drained .* moved=1 finished=0 cut=0 refused=0\n/);
    },
  );

  clustered('while it streams: the run may end in its time, and nothing new begins', {}, async (cluster) => {
    const one = cluster.at(1);
    const rest = gate();
    cluster.model.script(
      says('Hello.'),
      calls(locate),
      async (pen) => {
        pen.says('One, ');
        await rest.opened;
        pen.says('two.');
      },
      says('You are in Bern.'),
    );
    await (await cluster.at(1, 'chat-idle').post('hello')).toEnd();
    const parked = await cluster.at(1, 'chat-parked').post('where am I?', { tools });
    const { toolCallId } = await parked.sees('tool-input-available');
    const stream = await one.post('count');
    await stream.sees('text-delta');
    cluster.server(1).signal('SIGTERM');
    const readiness = () =>
      one.request('GET', '/readyz').then(
        ({ status }) => status,
        () => 0,
      );
    await until(async () => (await readiness()) === 503, 'the instance not to be ready');
    assert.equal((await cluster.at(1, 'another').post('hello')).status, 503);
    for (const path of ['', '/pending', '/grants'])
      assert.equal((await one.request('GET', `/api/chat/chat-idle${path}`)).status, 200, path);
    // What needs no stream is passed on to the other instance, as soon as a heartbeat has told of it.
    await until(
      async () => (await one.request('DELETE', '/api/chat/chat-idle')).status === 204,
      'the chat to be deleted',
    );
    await cluster.at(1, 'chat-parked').answer({ toolCallId, output: 'Bern' });
    assert.match(JSON.stringify(await recordAt(cluster.at(2, 'chat-parked'))), /You are in Bern\./);
    rest.open();
    await stream.toEnd();
    assert.ok(stream.done && textOf(stream) === 'One, two.', stream.outline);
    await until(() => !cluster.server(1).alive, 'the instance to end');
    assert.match(JSON.stringify(await recordAt(cluster.at(2))), /One, two\./);
    assert.equal(cluster.model.requests.length, 4);
    await until(
      () => / drained .* moved=1 finished=1 cut=0 refused=\d+\n/.test(cluster.server(1).log),
      () => cluster.server(1).log,
    );
  });
});
