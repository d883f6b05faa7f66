// @ts-check
// A run outlives its connections: every reader, at any time, reads the same message, whole and once.

import assert from 'node:assert/strict';
import { merged } from '../harness/events.mjs';
import { calls, says } from '../harness/fake-openai.mjs';
import { BROWSER_TOOLS, scenario } from '../harness/scenario.mjs';
import { gate, until } from '../harness/until.mjs';

const locate = { name: 'get_location', input: { accuracy: 'high' } };

scenario('a page that lost its connection resumes the message whole and once', {}, async (world) => {
  const rest = gate();
  world.model.script(async (pen) => {
    pen.reasons('Hm. ');
    pen.says('One, ');
    await rest.opened;
    pen.says('two, three.');
  });
  world.expectErrors();
  const page = await world.page();
  page.say('count');
  await page.reads('One, ');
  page.cutOff();
  await page.settles();
  // Version 5 goes on with the broken message as it was, so only a new chat object can read it from its
  // start.
  let again = page;
  if (world.version === 5) {
    await world.close(page);
    again = await world.page();
  }
  await again.load();
  assert.equal(again.messages.length, 1, 'the message being written is not in the record');
  const resumed = again.follow();
  await again.reads('One, ');
  rest.open();
  await resumed;
  await again.settles();
  assert.equal(again.words, 'One, two, three.');
  assert.equal(again.messages.length, 2);
  assert.equal(page.posts.length, 1);
});

scenario('a page that is opened again shows the parked call and its answer', {}, async (world) => {
  world.model.script(calls(locate), says('You are in Bern.'));
  const before = await world.page({ tools: BROWSER_TOOLS });
  before.say('where am I?');
  await before.shows('get_location', 'input-available');
  await world.close(before);

  const page = await world.page({ tools: BROWSER_TOOLS });
  const resumed = page.resume();
  const { toolCallId } = await page.shows('get_location', 'input-available');
  await world.answer({ toolCallId, output: 'Bern' });
  await resumed;
  await page.settles();
  assert.equal(page.words, 'You are in Bern.');
  assert.equal(page.messages.length, 2);
  assert.equal(page.posts.length, 0);
});

scenario('a second tab sees what the first sees and may answer', {}, async (world) => {
  world.model.script(calls(locate), says('You are in Bern.'));
  const first = await world.page({ tools: BROWSER_TOOLS });
  first.say('where am I?');
  await first.shows('get_location', 'input-available');
  const second = await world.page({ tools: BROWSER_TOOLS });
  const resumed = second.resume();
  const { toolCallId } = await second.shows('get_location', 'input-available');
  await world.answer({ toolCallId, output: 'Bern' });
  await resumed;
  await first.settles();
  await second.settles();
  assert.equal(first.words, 'You are in Bern.');
  assert.deepEqual(second.reply, first.reply);
});

scenario('after Last-Event-ID comes what comes after it', {}, async (world) => {
  world.model.script((pen) => {
    pen.says('Let me ', 'look.');
    pen.calls(locate);
  }, says('Bern.'));
  const whole = await world.post('where am I?', { tools: BROWSER_TOOLS });
  const { toolCallId } = await whole.sees('tool-input-available');
  const last = whole.events.findIndex((event) => event.chunk.type === 'tool-input-start');
  const late = await world.follow({ 'last-event-id': whole.events[last]?.id ?? '' });
  const again = await world.follow();
  await late.sees('tool-input-available');
  await world.answer({ toolCallId, output: 'Bern' });
  await Promise.all([whole.toEnd(), late.toEnd(), again.toEnd()]);
  assert.ok(whole.done && late.done && again.done);
  assert.deepEqual(merged(late.chunks), merged(whole.chunks.slice(last + 1)));
  assert.deepEqual(merged(again.chunks), merged(whole.chunks));
  const ids = whole.events.map((event) => event.id);
  assert.equal(new Set(ids).size, ids.length, 'every event has an id of its own');
  assert.ok(!ids.includes(''));
});

scenario('after Last-Event-ID comes the rest of a run that is over', {}, async (world) => {
  world.model.script(says('Once ', 'upon ', 'a time.'));
  const whole = await world.post('tell me');
  await whole.toEnd();
  const middle = whole.events.findIndex((event) => event.chunk.type === 'text-start');
  const rest = await world.follow({ 'last-event-id': whole.events[middle]?.id ?? '' });
  await rest.toEnd();
  assert.ok(rest.done);
  assert.deepEqual(merged(rest.chunks), merged(whole.chunks.slice(middle + 1)));
  for (const id of [whole.events.at(-1)?.id ?? '', 'run_unknown:1']) {
    const nothing = await world.follow({ 'last-event-id': id });
    assert.equal(nothing.status, 204);
  }
});

scenario('a reader that goes away ends nothing', {}, async (world) => {
  const rest = gate();
  world.model.script(async (pen) => {
    pen.says('One, ');
    await rest.opened;
    pen.says('two.');
  });
  const reader = await world.post('count');
  await reader.sees('text-delta');
  reader.leave();
  await reader.toEnd();
  rest.open();
  const text = async () => (await world.stored()).at(-1)?.parts.find((part) => part.type === 'text')?.text;
  await until(async () => (await text()) === 'One, two.', 'the whole message in the record');
  assert.equal(world.model.request(1).gone, false);
});

scenario('where no run is open there is nothing to follow', { versions: [7] }, async (world) => {
  world.model.script(says('Hello.'));
  assert.equal((await world.follow()).status, 204, 'a chat that is unknown');
  const page = await world.page();
  page.say('hello');
  await page.settles();
  const isOver = async () => (await (await world.follow()).toEnd()).status === 204;
  await until(isOver, 'the run to be over');
});

scenario('the stream carries the headers that clients and proxies need', { versions: [6] }, async (world) => {
  world.model.script(says('Hello.'));
  const stream = await (await world.post('hello')).toEnd();
  assert.match(stream.headers.get('content-type') ?? '', /^text\/event-stream/);
  assert.equal(stream.headers.get('cache-control'), 'no-cache, no-transform');
  assert.equal(stream.headers.get('x-vercel-ai-ui-message-stream'), 'v1');
  assert.equal(stream.headers.get('x-accel-buffering'), 'no');
  assert.equal(stream.headers.get('x-chat-id'), world.id);
  assert.ok(stream.headers.get('x-resumable-stream-id'));
});
