// @ts-check
// The words of the model, and their return to it in the next turn.

import assert from 'node:assert/strict';
import { says } from '../harness/fake-openai.mjs';
import { scenario } from '../harness/scenario.mjs';
import { gate } from '../harness/until.mjs';

scenario('text arrives while the model still writes', {}, async (world) => {
  const { model } = world;
  const rest = gate();
  model.script(async (pen) => {
    pen.says('Good ');
    await rest.opened;
    pen.says('morning.');
  });
  const page = await world.page();
  page.say('hello');
  await page.reads('Good ');
  rest.open();
  await page.settles();
  assert.equal(page.words, 'Good morning.');
  assert.equal(page.posts.length, 1);
});

scenario('the next turn carries the whole conversation', {}, async (world) => {
  const { model } = world;
  model.script(says('One.'), says('Two.'));
  const page = await world.page();
  page.say('first');
  await page.settles();
  page.say('second');
  await page.settles();
  assert.deepEqual(model.request(2).words, ['user: first', 'assistant: One.', 'user: second']);
  assert.equal(page.messages.length, 4);
});

scenario('an answer that is made again takes the place of the first', {}, async (world) => {
  const { model } = world;
  model.script(says('One.'), says('Uno.'));
  const page = await world.page();
  page.say('count');
  await page.settles();
  page.regenerate();
  await page.settles();
  assert.equal(page.words, 'Uno.');
  assert.equal(page.messages.length, 2);
  assert.deepEqual(model.request(2).words, ['user: count']);
});

scenario(
  'a message that was lost on its way is not lost when its answer is asked for again',
  {},
  async (world) => {
    const { model } = world;
    model.script(says('One.'), says('Two.'));
    const page = await world.page();
    page.say('first');
    await page.settles();
    world.expectErrors();
    await world.server.kill();
    page.say('second');
    await page.settles();
    await world.server.start();
    page.regenerate();
    await page.settles();
    assert.equal(page.words, 'Two.');
    assert.deepEqual(model.request(2).words, ['user: first', 'assistant: One.', 'user: second']);
  },
);

scenario('reasoning is a part of its own before the text', {}, async (world) => {
  const { model } = world;
  model.script((pen) => {
    pen.reasons('Let me ', 'think.');
    pen.says('Forty-two.');
  });
  const page = await world.page();
  page.say('what is it?');
  await page.settles();
  const parts = page.reply.parts.map(({ type, text }) => [type, text]);
  assert.deepEqual(parts, [
    ['step-start', undefined],
    ['reasoning', 'Let me think.'],
    ['text', 'Forty-two.'],
  ]);
});

scenario('a server tool that needs no asking runs in the same response', {}, async (world) => {
  const { model } = world;
  model.script(
    (pen) => pen.calls({ name: 'current_time', input: { timezone: 'Europe/Zurich' } }),
    says('Late.'),
  );
  const page = await world.page({ sends: 'outputs' });
  page.say('what time is it?');
  await page.settles();
  const [call] = page.calls;
  assert.equal(call?.state, 'output-available');
  assert.equal(page.words, 'Late.');
  assert.equal(page.posts.length, 1);
  assert.deepEqual(
    model.request(2).calls.map(({ name, input }) => ({ name, input })),
    [{ name: 'current_time', input: { timezone: 'Europe/Zurich' } }],
  );
});
