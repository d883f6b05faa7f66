// @ts-check
// Calls on one resource run one after the other, in every chat; calls on different ones run side by side. The
// MCP server by hand writes down when a call begins and ends, and the test decides when each may end.

import assert from 'node:assert/strict';
import { calls, says } from '../harness/fake-openai.mjs';
import { byHand, journal, letGo } from '../harness/mcp.mjs';
import { scenario } from '../harness/scenario.mjs';
import { until } from '../harness/until.mjs';

/** @typedef {import('../harness/scenario.mjs').World} World */
/** @typedef {import('../harness/scenario.mjs').Place} Place */

const work = (/** @type {string} */ key) => ({ name: 'hand__work', input: { key } });

/** @param {World} world */
const order = (world) =>
  journal(world).flatMap(({ event, about }) =>
    event === 'begin' || event === 'end' ? [`${event} ${about}`] : [],
  );

const byKey = (/** @type {Place} */ place) => `${byHand(place)}
[tools."hand__w*"]
resource = { input = "key" }
`;

scenario(
  'two chats on one resource run one after the other, a third on another beside them',
  { versions: [7], config: byKey },
  async (world) => {
    const { model } = world;
    await world.offers('hand__work');
    model.script(calls(work('door')));
    const first = await world.post('work', { id: 'one' });
    await until(() => order(world).includes('begin door'), 'the first call to run');

    model.script(calls(work('door')));
    const second = await world.post('work', { id: 'two' });
    await second.sees('tool-input-available');

    // Without a lock, the second one would have begun before this one is through.
    model.script(calls(work('window')), says('Worked.'));
    letGo(world, 'window');
    await (await world.post('work', { id: 'three' })).toEnd();
    assert.deepEqual(order(world), ['begin door', 'begin window', 'end window']);

    model.script(says('Worked.'), says('Worked.'));
    letGo(world, 'door');
    await Promise.all([first.toEnd(), second.toEnd()]);
    assert.deepEqual(order(world).slice(3), ['end door', 'begin door', 'end door']);
  },
);

scenario(
  'calls of one step on one resource run in the order of the model',
  { config: byKey },
  async (world) => {
    const { model } = world;
    await world.offers('hand__work');
    letGo(world, 'door');
    letGo(world, 'window');
    model.script(calls(work('door'), work('window'), work('door'), work('door')), says('Worked.'));
    const page = await world.page({ sends: 'outputs' });
    page.say('work');
    await page.settles();
    assert.equal(page.words, 'Worked.');
    assert.deepEqual(
      order(world).filter((line) => line.endsWith('door')),
      Array(3).fill(['begin door', 'end door']).flat(),
    );
  },
);

const fixed = (/** @type {Place} */ place) => `${byHand(place)}
[tools."hand__*"]
resource = "everything in it"
[tools."hand__look"]
resource = "eyes"
`;

scenario(
  'of settings for a tool the later wins, and a fixed resource is listed',
  { versions: [6], config: fixed },
  async (world) => {
    const { model } = world;
    assert.equal((await world.offers('hand__work')).resource, 'everything in it');
    assert.equal((await world.offers('hand__look')).resource, 'eyes');
    model.script(calls(work('a'), work('b'), { name: 'hand__look', input: { key: 'x' } }));
    const stream = await world.post('work');
    await stream.sees('tool-output-available');
    assert.deepEqual(order(world), ['begin a'], 'the other resource is free, this one is not');
    model.script(says('Worked.'));
    letGo(world, 'b');
    letGo(world, 'a');
    await stream.toEnd();
    assert.deepEqual(order(world), ['begin a', 'end a', 'begin b', 'end b']);
  },
);

scenario(
  'stop ends a call that waits for its turn, and frees the resource',
  { versions: [7], config: byKey },
  async (world) => {
    const { model } = world;
    await world.offers('hand__work');
    model.script(calls(work('door')));
    const first = await world.post('work', { id: 'one' });
    await until(() => order(world).includes('begin door'), 'the first call to run');
    model.script(calls(work('door')));
    const second = await world.post('work', { id: 'two' });
    await second.sees('tool-input-available');
    assert.equal((await world.request('POST', '/api/chat/two/stop')).status, 204);
    await second.toEnd();
    assert.equal((await world.request('POST', '/api/chat/one/stop')).status, 204);
    await first.toEnd();
    assert.deepEqual(order(world), ['begin door']);

    letGo(world, 'door');
    await until(() => order(world).includes('end door'), 'the first call to be through after all');
    model.script(calls(work('door')), says('Worked.'));
    await (await world.post('work', { id: 'three' })).toEnd();
    assert.deepEqual(order(world).slice(2), ['begin door', 'end door']);
  },
);

const parked = (/** @type {Place} */ place) => `${byHand(place)}
[tools."hand__*"]
resource = "one"
`;

scenario('no resource is held while a person is asked', { versions: [6], config: parked }, async (world) => {
  const { model } = world;
  await world.offers('hand__change');
  model.script(calls({ name: 'hand__change', input: { key: 'a' } }));
  const first = await world.post('change', { id: 'one' });
  const { approvalId } = await first.sees('tool-approval-request');
  model.script(calls({ name: 'hand__look', input: { key: 'x' } }), says('Seen.'));
  const second = await (await world.post('look', { id: 'two' })).toEnd();
  assert.ok(second.chunks.some((chunk) => chunk.type === 'tool-output-available'));
  model.script(says('Changed.'));
  await world.answer({ chatId: 'one', approvalId, approved: true });
  await first.toEnd();
  assert.ok(first.done);
});

const unanswered = (/** @type {Place} */ place) => `elicit_timeout = "1s"\n${parked(place)}`;

scenario(
  'a question that nobody answers keeps a resource no longer than its limit',
  { versions: [6], config: unanswered },
  async (world) => {
    const { model } = world;
    await world.offers('hand__ask');
    model.script(calls({ name: 'hand__ask', input: { key: 'Ann' } }));
    const first = await world.post('ask me', { id: 'one' });
    await first.sees('data-elicitation');
    const [question] = await world.pending('one');
    assert.equal(Date.parse(question?.expires ?? '') - Date.parse(question?.since ?? ''), 1000);
    model.script(says('Not answered.'));
    await first.toEnd();
    const ended = first.chunks.findLast(({ type }) => type === 'data-elicitation')?.data;
    const { state, reason } = /** @type {{ state: string, reason: string }} */ (ended);
    assert.equal(state, 'cancelled');
    assert.match(reason, /nobody answered within 1s.*elicit_timeout/);
    const told = model.request(2).results[0]?.text ?? '';
    assert.match(
      told,
      /"action":"cancel".*hand asked the person was not answered: nobody answered within 1s/s,
    );
    model.script(calls({ name: 'hand__look', input: { key: 'x' } }), says('Seen.'));
    const second = await (await world.post('look', { id: 'two' })).toEnd();
    assert.ok(second.chunks.some(({ type }) => type === 'tool-output-available'));
  },
);

const impatient = (/** @type {Place} */ place) => `lock_timeout = "1s"\n${byKey(place)}`;

scenario('a wait for a resource ends with a clear error', { config: impatient }, async (world) => {
  await world.offers('hand__work');
  world.model.script(calls(work('door'), work('door')), says('Once.'));
  const page = await world.page({ sends: 'outputs' });
  page.say('work');
  const waited = await page.shows('hand__work', 'output-error');
  assert.match(waited.errorText ?? '', /door.*1s.*did not run/);
  letGo(world, 'door');
  await page.settles();
  assert.deepEqual(order(world), ['begin door', 'end door']);
  assert.equal(page.words, 'Once.');
  assert.equal(page.posts.length, 1);
});
