// @ts-check
// Several instances on one PostgreSQL and one Redis, without sticky sessions: a request to one
// instance about a run that another drives has the same effect as a request to that one.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe } from 'node:test';
import { clustered } from '../harness/cluster.mjs';
import { calls, says } from '../harness/fake-openai.mjs';
import { byHand, journal, letGo } from '../harness/mcp.mjs';
import { messageOf } from '../harness/message.mjs';
import { BROWSER_TOOLS } from '../harness/scenario.mjs';
import { Server } from '../harness/server.mjs';
import { gate, until } from '../harness/until.mjs';

/** @typedef {import('../harness/cluster.mjs').Cluster} Cluster */
/** @typedef {import('../harness/events.mjs').EventStream} EventStream */

const tools = BROWSER_TOOLS;
const locate = { name: 'get_location', input: { accuracy: 'high' } };
const note = { name: 'write_note', input: { title: 'shopping', body: 'milk' } };
const work = (/** @type {string} */ key) => ({ name: 'hand__work', input: { key } });
const hand = (/** @type {Cluster} */ cluster) => byHand(cluster, { tools: ['work'] });

/** @param {EventStream} stream */
const textOf = ({ chunks }) =>
  chunks.flatMap(({ type, delta }) => (type === 'text-delta' ? [delta] : [])).join('');

describe('answers at another instance', { concurrency: 3 }, () => {
  clustered(
    'an answer goes on on the stream at the first, and is judged alike everywhere',
    {},
    async (cluster) => {
      const [one, two] = [cluster.at(1), cluster.at(2)];
      cluster.model.script(calls(locate), says('You are in Bern.'));
      const stream = await one.post('where am I?', { tools });
      const { toolCallId } = await stream.sees('tool-input-available');
      const right = { toolCallId, output: { city: 'Bern' } };

      const strange = [
        { toolCallId: 'call_nobody', output: 1 },
        { toolCallId, approved: true },
        { toolCallId, output: 1, chatId: 'chat-nobody' },
        { toolCallId },
      ];
      for (const answer of strange) {
        const [here, there] = [await one.tries(answer), await two.tries(answer)];
        assert.ok(here.status >= 400, JSON.stringify(here.body));
        assert.deepEqual([there.status, there.body], [here.status, here.body], JSON.stringify(answer));
      }

      const taken = await two.answer(right);
      await stream.toEnd();
      assert.ok(stream.done);
      assert.equal(textOf(stream), 'You are in Bern.');
      assert.deepEqual(await one.answer(right), taken);
      assert.deepEqual(await two.answer(right), taken);
      for (const at of [one, two]) {
        const late = await at.tries({ toolCallId, output: 'Basel' });
        assert.deepEqual(
          [late.status, late.body.code, late.body.state],
          [409, 'already_answered', 'success'],
        );
      }
      assert.deepEqual(await two.view(), await one.view());
    },
  );

  clustered('a person decides at another instance, by a batch and with an edit', {}, async (cluster) => {
    const [one, two] = [cluster.at(1), cluster.at(2)];
    cluster.model.script(calls(note, note), says('Written.'));
    const stream = await one.post('write it down');
    const questions = await until(
      () => {
        const found = stream.chunks.filter(({ type }) => type === 'tool-approval-request');
        return found.length === 2 && found.map(({ approvalId }) => approvalId);
      },
      () => `two questions: ${stream.outline}`,
    );
    const [first, second] = questions;
    const input = { title: 'shopping', body: 'oat milk' };
    await two.answer({
      answers: [
        { approvalId: first, approved: true, input },
        { approvalId: second, approved: false, reason: 'once is enough' },
      ],
    });
    await stream.toEnd();
    assert.ok(stream.done);
    const { messages } = await two.view();
    const states = messages
      .flatMap(({ parts }) => parts)
      .flatMap(({ toolCallId, state }) => (toolCallId ? [state] : []));
    assert.deepEqual(states, ['output-available', 'output-denied']);
    assert.match(cluster.model.request(2).results[1]?.text ?? '', /once is enough/);
    assert.deepEqual(cluster.model.request(2).calls[0]?.input, input);
  });

  clustered('a message posted again at another instance goes on at both', {}, async (cluster) => {
    const [one, two] = [cluster.at(1), cluster.at(2)];
    cluster.model.script(calls(locate), says('You are in Bern.'));
    const stream = await one.post('where am I?', { tools });
    await stream.sees('tool-input-available');
    const message = await messageOf(stream.chunks, 7);
    const parts = message.parts.map((part) =>
      part.toolCallId ? { ...part, state: 'output-available', output: 'Bern' } : part,
    );
    const again = await two.post([{ ...message, parts }], { tools, messageId: message.id });
    assert.equal(again.status, 200);
    await Promise.all([stream.toEnd(), again.toEnd()]);
    assert.ok(stream.done && again.done);
    assert.equal(textOf(stream), 'You are in Bern.');
    assert.equal(textOf(again), 'You are in Bern.');
    assert.equal(again.chunks[0]?.messageId, message.id);
  });

  clustered('a call that was let go is answered at another instance', {}, async (cluster) => {
    const [one, two] = [cluster.at(1), cluster.at(2)];
    cluster.model.script(calls(locate), says('You are in Bern.'));
    const stream = await (
      await one.post('where am I?', { tools, fermata: { client: 7, hold: '0s' } })
    ).toEnd();
    assert.ok(stream.done);
    const [waiting] = await two.pending();
    await two.answer({ toolCallId: waiting?.id, output: 'Bern' });
    const { messages } = await until(async () => {
      const view = await one.view();
      return !view.open && view.pending.length === 0 && view;
    }, 'the run to be over');
    assert.match(JSON.stringify(messages.at(-1)), /You are in Bern/);
  });
});

describe('readers at another instance', { concurrency: 3 }, () => {
  clustered('they read all from the start, or from where they were, and then live', {}, async (cluster) => {
    const [one, two] = [cluster.at(1), cluster.at(2)];
    // What comes from the model at once may be one delta.
    const [second, rest] = [gate(), gate()];
    cluster.model.script(async (pen) => {
      pen.reasons('Hm. ');
      pen.says('One, ');
      await second.opened;
      pen.says('two, ');
      await rest.opened;
      pen.says('three.');
    });
    const stream = await one.post('count');
    await stream.sees('text-delta', ({ delta }) => delta === 'One, ');
    second.open();
    await stream.sees('text-delta', ({ delta }) => delta === 'two, ');
    const middle = stream.events.findIndex(({ chunk }) => chunk.type === 'text-delta');
    const readers = [
      await two.follow(),
      await two.follow(),
      await two.follow({ 'last-event-id': stream.events[middle]?.id ?? '' }),
    ];
    for (const reader of readers) {
      await reader.sees('text-delta', ({ delta }) => delta === 'two, ');
      assert.equal(reader.headers.get('x-resumable-stream-id'), stream.headers.get('x-resumable-stream-id'));
    }
    rest.open();
    await Promise.all([stream, ...readers].map((reader) => reader.toEnd()));
    assert.ok([stream, ...readers].every(({ done }) => done));
    const [whole, other, part] = readers;
    assert.deepEqual(whole?.events, stream.events);
    assert.deepEqual(other?.events, stream.events);
    assert.deepEqual(part?.events, stream.events.slice(middle + 1));
    assert.equal((await two.follow()).status, 204);
  });

  clustered('what waits and what was said is told alike, and stopped alike', {}, async (cluster) => {
    const [one, two] = [cluster.at(1), cluster.at(2)];
    cluster.model.script(says('Hello.'), calls(locate));
    await (await one.post('hello')).toEnd();
    const stream = await one.post('where am I?', { tools });
    const { toolCallId } = await stream.sees('tool-input-available');
    const view = await two.view();
    assert.deepEqual(view, await one.view());
    assert.deepEqual([view.open, view.pending.map(({ id }) => id)], [true, [toolCallId]]);
    assert.deepEqual(await two.pending(), view.pending);

    await two.stop();
    await stream.toEnd();
    assert.ok(stream.done && stream.chunks.some(({ type }) => type === 'abort'), stream.outline);
    assert.deepEqual(await two.pending(), []);
    const late = await two.tries({ toolCallId, output: 1 });
    assert.deepEqual([late.status, late.body.code], [410, 'gone']);
  });

  clustered('a chat is forgotten everywhere', {}, async (cluster) => {
    const [one, two] = [cluster.at(1), cluster.at(2)];
    cluster.model.script(calls(locate));
    const stream = await one.post('where am I?', { tools });
    const { toolCallId } = await stream.sees('tool-input-available');
    await two.forget();
    await stream.toEnd();
    for (const at of [one, two]) {
      assert.equal((await at.request('GET', '/api/chat/chat-1')).status, 404);
      assert.equal((await at.tries({ toolCallId, output: 1 })).status, 404);
    }
  });
});

describe('new messages at another instance', { concurrency: 3 }, () => {
  clustered('a new one supersedes the run', {}, async (cluster) => {
    const [one, two] = [cluster.at(1), cluster.at(2)];
    cluster.model.script(calls(locate), says('Never mind.'));
    const stream = await one.post('where am I?', { tools });
    await stream.sees('tool-input-available');
    const next = await (await two.post('forget it', { tools })).toEnd();
    await stream.toEnd();
    assert.ok(stream.done && next.done);
    assert.equal(textOf(next), 'Never mind.');
    assert.deepEqual(
      stream.chunks.slice(-1).map(({ type }) => type === 'abort' || type === 'tool-input-available'),
      [true],
      stream.outline,
    );
    assert.deepEqual(
      (await one.view()).messages.map(({ role }) => role),
      ['user', 'assistant', 'user', 'assistant'],
    );
  });

  clustered('an edit and a regeneration replace what was there', {}, async (cluster) => {
    const [one, two] = [cluster.at(1), cluster.at(2)];
    cluster.model.script(calls(locate), says('Edited.'), says('Again.'));
    const parts = [{ type: 'text', text: 'where am I?' }];
    const stream = await one.post([{ id: 'u-1', role: 'user', parts }], { tools });
    await stream.sees('tool-input-available');
    const edit = [{ id: 'u-1', role: 'user', parts: [{ type: 'text', text: 'who am I?' }] }];
    assert.equal(textOf(await (await two.post(edit, { tools, messageId: 'u-1' })).toEnd()), 'Edited.');
    await stream.toEnd();
    assert.equal(textOf(await (await one.post([], { trigger: 'regenerate-message' })).toEnd()), 'Again.');
    const { messages } = await two.view();
    assert.deepEqual(
      messages.map(({ role }) => role),
      ['user', 'assistant'],
    );
    assert.deepEqual(cluster.model.request(3).words, ['user: who am I?']);
  });

  clustered(
    'runs of an owner are counted over all instances',
    { settings: { FERMATA_RUNS_PER_OWNER: '2' } },
    async (cluster) => {
      cluster.model.script(calls(locate), calls(locate));
      await (await cluster.at(1, 'a').post('where am I?', { tools })).sees('tool-input-available');
      await (await cluster.at(2, 'b').post('where am I?', { tools })).sees('tool-input-available');
      for (const place of [1, 2])
        assert.equal((await cluster.at(place, 'c').post('where am I?', { tools })).status, 429);
      await cluster.at(1, 'b').stop();
      cluster.model.script(says('Here.'));
      assert.equal(textOf(await (await cluster.at(1, 'c').post('where am I?')).toEnd()), 'Here.');
    },
  );

  const alone = (/** @type {Cluster} */ cluster) =>
    `${hand(cluster)}[tools."hand__*"]\nresource = { input = "key" }\n`;
  clustered(
    'calls on one resource run one after the other, wherever they are',
    { config: alone },
    async (cluster) => {
      for (const place of [1, 2]) await cluster.at(place).offers('hand__work');
      const order = () =>
        journal(cluster).flatMap(({ event, about }) => (event === 'started' ? [] : [`${event} ${about}`]));
      cluster.model.script(calls(work('door')));
      const first = await cluster.at(1, 'a').post('work');
      await until(() => order().includes('begin door'), 'the first call to run');
      cluster.model.script(calls(work('door')));
      const second = await cluster.at(2, 'b').post('work');
      await second.sees('tool-input-available');
      // Without a lock, the second one would have begun before this one is through.
      cluster.model.script(calls(work('window')), says('Worked.'));
      letGo(cluster, 'window');
      await (await cluster.at(2, 'c').post('work')).toEnd();
      assert.deepEqual(order(), ['begin door', 'begin window', 'end window']);
      cluster.model.script(says('Worked.'), says('Worked.'));
      letGo(cluster, 'door');
      await Promise.all([first.toEnd(), second.toEnd()]);
      assert.deepEqual(order().slice(3), ['end door', 'begin door', 'end door']);
    },
  );
});

describe('Redis is not trusted', { concurrency: 3 }, () => {
  clustered('who can write to it approves nothing and ends nothing', {}, async (cluster) => {
    const [one, two] = [cluster.at(1), cluster.at(2)];
    cluster.model.script(calls(note), says('Noted.'));
    const stream = await one.post('note it');
    const { toolCallId } = await stream.sees('tool-approval-request');
    const edited = { title: 'forged', body: 'all of it' };
    const answer = {
      of: { Call: toolCallId },
      kind: { kind: 'decision', approved: true, always: true, input: edited },
    };
    const ask = (/** @type {object} */ what) =>
      JSON.stringify({ ask: { number: 1, from: 'nobody', chat: one.chat, ask: what } });
    const put =
      "for _, key in ipairs(redis.call('KEYS', 'fermata:box:*')) do for _, message in ipairs(ARGV) " +
      "do redis.call('XADD', key, '*', 'l', message) end end";
    const stop = ask({ stop: { owner: 'anyone' } });
    cluster.redis.evaluate(put, ask({ answer: { owner: 'anyone', answers: [answer] } }), stop);
    await until(() => cluster.server(1).log.includes('were dropped'), 'the messages to be dropped');

    assert.equal((await one.pending()).length, 1);
    await two.answer({ toolCallId, approved: true });
    await stream.toEnd();
    assert.equal(textOf(stream), 'Noted.');
    assert.deepEqual(await cluster.database.rows('select title from notes'), [{ title: note.input.title }]);
  });

  clustered(
    'instances with keys that differ say so with 503, and reach each other with the same',
    { instances: 1 },
    async (cluster) => {
      cluster.model.script(calls(locate), says('You are in Bern.'));
      const stream = await cluster.at(1).post('where am I?', { tools });
      const { toolCallId } = await stream.sees('tool-input-available');
      const key = randomBytes(32).toString('base64');
      const other = await Server.start({ ...cluster.settings, FERMATA_CLUSTER_KEY: key });
      cluster.servers.push(other);
      const answer = { toolCallId, output: { city: 'Bern' } };
      const refused = await cluster.at(2).tries(answer);
      assert.deepEqual([refused.status, refused.body.code], [503, 'unavailable']);
      assert.ok(refused.headers.has('retry-after'));

      const [{ key: shared }] = /** @type {[{ key: string }]} */ (
        await cluster.database.rows('select key from cluster_keys')
      );
      cluster.servers.push(await Server.start({ ...cluster.settings, FERMATA_CLUSTER_KEY: shared }));
      await cluster.at(3).answer(answer);
      await stream.toEnd();
      assert.equal(textOf(stream), 'You are in Bern.');
    },
  );
});
