// @ts-check
// Calls that the browser runs: parked, answered by a second request, and continued on the stream that was
// there.

import assert from 'node:assert/strict';
import { calls, says } from '../harness/fake-openai.mjs';
import { BROWSER_TOOLS, scenario } from '../harness/scenario.mjs';

const locate = { name: 'get_location', input: { accuracy: 'high' } };
const pick = { name: 'pick_color', input: { palette: 'warm' } };

scenario('an answered call goes on in the same response', {}, async (world) => {
  const { model } = world;
  model.script((pen) => {
    pen.says('Let me look. ');
    pen.calls(locate);
  }, says('You are in Bern.'));
  const page = await world.page({ tools: BROWSER_TOOLS, sends: 'outputs' });
  page.say('where am I?');
  const call = await page.shows('get_location', 'input-available');
  assert.deepEqual(call.input, locate.input);
  assert.deepEqual(
    (await world.pending()).map(({ id, tool, state }) => ({ id, tool, state })),
    [{ id: call.toolCallId, tool: 'get_location', state: 'executing' }],
  );
  assert.equal(model.requests.length, 1, 'the model waits, too');

  const taken = await world.answer({ toolCallId: call.toolCallId, output: { city: 'Bern' } });
  assert.deepEqual(taken, [{ toolCallId: call.toolCallId, state: 'success', waitingFor: [] }]);
  await page.settles();
  assert.equal(page.posts.length, 1);
  assert.deepEqual(
    page.reply.parts.map(({ type }) => type),
    ['step-start', 'text', 'tool-get_location', 'step-start', 'text'],
  );
  assert.deepEqual(page.calls[0]?.output, { city: 'Bern' });
  assert.equal(page.words, 'Let me look. You are in Bern.');
  assert.deepEqual(page.toolCalls, ['get_location']);
  assert.deepEqual(model.request(2).results, [{ name: 'get_location', text: '{"city":"Bern"}' }]);
  assert.deepEqual(await world.pending(), []);
});

scenario('two calls are answered in any order and the model is asked once', {}, async (world) => {
  const { model } = world;
  model.script(calls(locate, pick), says('Both.'));
  const page = await world.page({ tools: BROWSER_TOOLS, sends: 'outputs' });
  page.say('two things');
  const location = await page.shows('get_location', 'input-available');
  const color = await page.shows('pick_color', 'input-available');
  await world.answer({ toolCallId: color.toolCallId, output: 'red' });
  await page.shows('pick_color', 'output-available');
  assert.equal(model.requests.length, 1);
  await world.answer({ toolCallId: location.toolCallId, output: 'Bern' });
  await page.settles();
  assert.equal(page.posts.length, 1);
  assert.equal(page.words, 'Both.');
  assert.deepEqual(
    model
      .request(2)
      .results.map(({ name, text }) => `${name}: ${text}`)
      .sort(),
    ['get_location: Bern', 'pick_color: red'],
  );
});

scenario('two answers in one request are taken together', { versions: [6] }, async (world) => {
  world.model.script(calls(locate, pick), says('Both.'));
  const page = await world.page({ tools: BROWSER_TOOLS });
  page.say('two things');
  const location = await page.shows('get_location', 'input-available');
  const color = await page.shows('pick_color', 'input-available');
  const refused = await world.request('POST', '/chat/tool-result', {
    chatId: world.id,
    answers: [
      { toolCallId: location.toolCallId, output: 'Bern' },
      { toolCallId: 'no-such-call', output: 1 },
    ],
  });
  assert.equal(refused.status, 404);
  assert.equal(
    (await world.pending()).length,
    2,
    'one answer that cannot be taken leaves the others untaken',
  );
  await world.answer({
    answers: [
      { toolCallId: location.toolCallId, output: 'Bern' },
      { toolCallId: color.toolCallId, output: 'red' },
    ],
  });
  await page.settles();
  assert.equal(page.words, 'Both.');
});

scenario('a call that failed in the browser is told to the model as a failure', {}, async (world) => {
  const { model } = world;
  model.script(calls(locate), says('Pity.'));
  const page = await world.page({ tools: BROWSER_TOOLS, sends: 'outputs' });
  page.say('where am I?');
  const call = await page.shows('get_location', 'input-available');
  await world.answer({ toolCallId: call.toolCallId, errorText: 'the person refused' });
  await page.settles();
  assert.equal(page.calls[0]?.state, 'output-error');
  assert.equal(page.calls[0]?.errorText, 'the person refused');
  assert.match(model.request(2).results[0]?.text ?? '', /the person refused/);
  assert.equal(page.posts.length, 1);
});

scenario(
  'the same answer twice is taken once, a different one is refused',
  { versions: [7] },
  async (world) => {
    world.model.script(calls(locate), says('Done.'));
    const page = await world.page({ tools: BROWSER_TOOLS });
    page.say('where am I?');
    const { toolCallId } = await page.shows('get_location', 'input-available');
    const first = await world.answer({ toolCallId, output: { city: 'Bern', zip: 3000 } });
    const again = await world.answer({ toolCallId, output: { zip: 3000, city: 'Bern' } });
    assert.deepEqual(again, first);
    const other = await world.request('POST', '/chat/tool-result', {
      chatId: world.id,
      toolCallId,
      output: 'Basel',
    });
    assert.equal(other.status, 409);
    assert.equal(/** @type {{ code: string }} */ (await other.json()).code, 'already_answered');
    await page.settles();
    assert.equal(world.model.requests.length, 2);
  },
);

scenario('an answer by the older names is taken', { versions: [6] }, async (world) => {
  world.model.script(calls(locate), says('Done.'));
  const page = await world.page({ tools: BROWSER_TOOLS });
  page.say('where am I?');
  const { toolCallId } = await page.shows('get_location', 'input-available');
  const taken = await world.request('POST', '/api/chat/tool-result', {
    session_id: world.id,
    tool_call_id: toolCallId,
    result: 'Bern',
  });
  assert.equal(taken.status, 200);
  await page.settles();
  assert.equal(page.calls[0]?.output, 'Bern');
});
