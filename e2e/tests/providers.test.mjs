// @ts-check
// What real model APIs do: they refuse, fail, break off, and make up tools, ids and arguments.

import assert from 'node:assert/strict';
import { API_KEY, calls, refuses, says } from '../harness/fake-openai.mjs';
import { BROWSER_TOOLS, scenario } from '../harness/scenario.mjs';

scenario('a provider that is busy is asked again', { versions: [6] }, async (world) => {
  const { model } = world;
  model.script(refuses(429, { 'retry-after': '1' }), says('Now.'));
  const page = await world.page();
  page.say('hello');
  await page.settles();
  assert.equal(page.words, 'Now.');
  assert.equal(model.requests.length, 2);
});

scenario(
  'a provider that keeps failing is an error of the run, and the next turn works',
  {},
  async (world) => {
    const { model } = world;
    model.script(refuses(500), refuses(500), refuses(500), says('Back.'));
    world.expectErrors();
    const page = await world.page();
    page.say('hello');
    await page.settles();
    assert.equal(page.status, 'error');
    assert.equal(page.errors.length, 1);
    assert.ok(!page.errors[0]?.message.includes(API_KEY), 'what the provider says does not reach a client');
    assert.equal(model.requests.length, 3);
    page.say('still there?');
    await page.settles();
    assert.equal(page.words, 'Back.');
    assert.deepEqual(model.request(4).words, ['user: hello', 'user: still there?']);
  },
);

scenario('a reply that breaks off keeps what came, and the next turn works', {}, async (world) => {
  const { model } = world;
  model.script(async (pen) => {
    pen.says('One, ');
    await page.reads('One, ');
    pen.breaksOff();
  }, says('Back.'));
  world.expectErrors();
  const page = await world.page();
  page.say('count');
  await page.settles();
  assert.equal(page.status, 'error');
  assert.equal(page.words, 'One, ');
  page.say('go on');
  await page.settles();
  assert.equal(page.words, 'Back.');
});

scenario('a call that breaks off is settled, and the next turn works', {}, async (world) => {
  const { model } = world;
  model.script(async (pen) => {
    pen.argues(pen.begins('get_location', 'call_1'), '{"accuracy": "hi');
    await page.shows('get_location', 'input-streaming');
    pen.breaksOff();
  }, says('Back.'));
  world.expectErrors();
  const page = await world.page({ tools: BROWSER_TOOLS, sends: 'outputs' });
  page.say('where am I?');
  await page.settles();
  assert.equal(page.status, 'error');
  assert.equal(page.posts.length, 1);
  page.say('hello?');
  await page.settles();
  assert.equal(page.words, 'Back.');
});

scenario('a tool that does not exist is told to the model, which may try again', {}, async (world) => {
  const { model } = world;
  model.script(calls({ name: 'fly_away', input: {} }), says('I cannot.'));
  const page = await world.page({ sends: 'outputs' });
  page.say('fly');
  await page.settles();
  assert.equal(page.calls[0]?.state, 'output-error');
  assert.match(model.request(2).results[0]?.text ?? '', /fly_away/);
  assert.equal(page.words, 'I cannot.');
  assert.equal(page.posts.length, 1);
});

scenario('arguments that are no JSON are told to the model, which may try again', {}, async (world) => {
  const { model } = world;
  model.script((pen) => {
    pen.argues(pen.begins('get_location', 'call_1'), '{"accuracy": high');
  }, says('Again.'));
  const page = await world.page({ tools: BROWSER_TOOLS, sends: 'outputs' });
  page.say('where am I?');
  await page.settles();
  assert.equal(page.calls[0]?.state, 'output-error');
  assert.deepEqual(page.toolCalls, [], 'the browser is not told to run it');
  assert.equal(model.request(2).results.length, 1);
  assert.equal(page.words, 'Again.');
});

scenario('arguments that miss the schema are told to the model and nobody is asked', {}, async (world) => {
  const { model } = world;
  model.script(calls({ name: 'write_note', input: { title: 7 } }), says('Again.'));
  const page = await world.page({ sends: 'outputs' });
  page.say('note: milk');
  await page.settles();
  assert.equal(page.calls[0]?.state, 'output-error');
  assert.equal(page.calls[0]?.approval, undefined);
  assert.match(model.request(2).results[0]?.text ?? '', /title|body/);
  assert.equal(page.words, 'Again.');
});

scenario('calls whose arguments come interleaved are told apart', {}, async (world) => {
  const { model } = world;
  model.script((pen) => {
    const location = pen.begins('get_location', 'call_1');
    pen.argues(location, '{"accu');
    const color = pen.begins('pick_color', 'call_2');
    pen.argues(color, '{"palette":');
    pen.argues(location, 'racy":"high"}');
    pen.argues(color, '"warm"}');
  }, says('Both.'));
  const page = await world.page({ tools: BROWSER_TOOLS });
  page.say('two things');
  const location = await page.shows('get_location', 'input-available');
  const color = await page.shows('pick_color', 'input-available');
  assert.deepEqual([location.input, color.input], [{ accuracy: 'high' }, { palette: 'warm' }]);
  await world.answer({
    answers: [
      { toolCallId: location.toolCallId, output: 1 },
      { toolCallId: color.toolCallId, output: 2 },
    ],
  });
  await page.settles();
  assert.equal(page.words, 'Both.');
});

scenario('calls without ids, and ids that come back, are made unique', {}, async (world) => {
  const { model } = world;
  const anonymous = { name: 'current_time', input: {} };
  model.script(
    (pen) => {
      for (let n = 0; n < 2; n += 1) pen.argues(pen.begins('current_time'), '{}');
    },
    calls({ ...anonymous, id: 'same' }),
    calls({ ...anonymous, id: 'same' }),
    says('Enough.'),
  );
  const page = await world.page();
  page.say('what time is it?');
  await page.settles();
  assert.equal(page.words, 'Enough.');
  assert.equal(new Set(page.calls.map((call) => call.toolCallId)).size, 4);
});

scenario(
  'a finish reason nobody knows and a missing usage chunk do no harm',
  { versions: [7] },
  async (world) => {
    world.model.script((pen) => {
      pen.says('Done.');
      pen.finishReason = 'because_i_said_so';
      pen.usage = false;
    });
    const page = await world.page();
    page.say('hello');
    await page.settles();
    assert.equal(page.words, 'Done.');
  },
);

scenario(
  'a model that never stops calling is stopped, and no client posts again',
  { settings: { FERMATA_MAX_STEPS: '3' } },
  async (world) => {
    const again = calls({ name: 'current_time', input: {} });
    world.model.script(again, again, again);
    const page = await world.page({ sends: 'outputs' });
    page.say('what time is it?');
    await page.settles();
    assert.equal(page.posts.length, 1);
    assert.equal(world.model.requests.length, 3);
  },
);
