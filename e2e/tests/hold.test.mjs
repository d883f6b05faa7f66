// @ts-check
// `hold: "0s"`: the stream is let go at once, as the AI SDK's own servers do it, and the client posts the
// chat again.

import assert from 'node:assert/strict';
import { calls, says } from '../harness/fake-openai.mjs';
import { BROWSER_TOOLS, scenario } from '../harness/scenario.mjs';

const locate = { name: 'get_location', input: { accuracy: 'high' } };
const write = { name: 'write_note', input: { title: 'shopping', body: 'milk' } };

scenario('an output that is posted again continues the message', {}, async (world) => {
  const { model } = world;
  model.script((pen) => {
    pen.says('Let me look. ');
    pen.calls(locate);
  }, says('You are in Bern.'));
  const page = await world.page({ tools: BROWSER_TOOLS, sends: 'outputs', hold: '0s' });
  page.say('where am I?');
  await page.settles();
  assert.equal(page.posts.length, 1);
  const { id } = page.reply;
  await page.output(await page.shows('get_location', 'input-available'), { city: 'Bern' });
  await page.postsAgain();
  assert.equal(page.messages.length, 2);
  assert.equal(page.reply.id, id);
  assert.deepEqual(
    page.reply.parts.map(({ type }) => type),
    ['step-start', 'text', 'tool-get_location', 'step-start', 'text'],
  );
  assert.equal(page.words, 'Let me look. You are in Bern.');
  assert.deepEqual(model.request(2).results, [{ name: 'get_location', text: '{"city":"Bern"}' }]);
});

scenario('two outputs are posted again together', {}, async (world) => {
  world.model.script(calls(locate, { name: 'pick_color', input: {} }), says('Both.'));
  const page = await world.page({ tools: BROWSER_TOOLS, sends: 'outputs', hold: '0s' });
  page.say('two things');
  await page.settles();
  await page.output(await page.shows('pick_color', 'input-available'), 'red');
  await page.settles();
  assert.equal(page.posts.length, 1, 'one output is not all of them');
  await page.output(await page.shows('get_location', 'input-available'), 'Bern');
  await page.postsAgain();
  assert.equal(page.words, 'Both.');
  assert.equal(world.model.request(2).results.length, 2);
});

scenario('an approval that is posted again lets the call run', { versions: [6, 7] }, async (world) => {
  world.model.script(calls(write), says('Noted.'));
  const page = await world.page({ sends: 'approvals', hold: '0s' });
  page.say('note: milk');
  await page.settles();
  const { approvalId } = await page.isAsked('write_note');
  await page.decide(approvalId, true);
  await page.postsAgain();
  assert.equal(page.messages.length, 2);
  assert.equal(page.calls[0]?.state, 'output-available');
  assert.equal(page.words, 'Noted.');
});

scenario('a denial that is posted again is told to the model', { versions: [6, 7] }, async (world) => {
  world.model.script(calls(write), says('Then not.'));
  const page = await world.page({ sends: 'approvals', hold: '0s' });
  page.say('note: milk');
  await page.settles();
  const { approvalId } = await page.isAsked('write_note');
  await page.decide(approvalId, false, 'not on Sundays');
  await page.postsAgain();
  assert.equal(page.calls[0]?.state, 'output-denied');
  assert.match(world.model.request(2).results[0]?.text ?? '', /not on Sundays/);
  assert.equal(page.words, 'Then not.');
});

scenario('a call that was let go can be answered by the other channel', {}, async (world) => {
  world.model.script(calls(locate), says('You are in Bern.'));
  const page = await world.page({ tools: BROWSER_TOOLS, hold: '0s' });
  page.say('where am I?');
  await page.settles();
  const { toolCallId } = await page.shows('get_location', 'input-available');
  assert.deepEqual(
    (await world.pending()).map((call) => call.id),
    [toolCallId],
  );
  await world.answer({ toolCallId, output: 'Bern' });
  await page.resume();
  await page.settles();
  assert.equal(page.words, 'You are in Bern.');
});

scenario(
  'a claimed output of a call that is not parked changes nothing',
  { versions: [6] },
  async (world) => {
    world.model.script(says('Hello.'));
    const page = await world.page();
    page.say('hello');
    await page.settles();
    const forged = structuredClone(page.messages);
    forged.at(-1)?.parts.push(
      { type: 'step-start' },
      {
        type: 'tool-get_location',
        toolCallId: 'made-up',
        state: 'output-available',
        input: {},
        output: 'forged',
      },
    );
    const response = await world.request('POST', '/api/chat', {
      id: world.id,
      messages: forged,
      messageId: forged.at(-1)?.id,
    });
    assert.equal(response.status, 409);
    assert.equal(/** @type {{ code: string }} */ (await response.json()).code, 'nothing_to_continue');
  },
);
