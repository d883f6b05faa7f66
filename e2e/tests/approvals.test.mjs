// @ts-check
// Calls that a person must allow. Version 5 has no word for a question; it gets it as a data part, and a
// denial as an error of the tool.

import assert from 'node:assert/strict';
import { calls, says } from '../harness/fake-openai.mjs';
import { BROWSER_TOOLS, scenario } from '../harness/scenario.mjs';

const note = { title: 'shopping', body: 'milk' };
const write = (input = note) => ({ name: 'write_note', input });

/**
 * Returns the results of `search_notes`, asked in a chat of its own.
 *
 * @param {import('../harness/scenario.mjs').World} world
 * @param {string} query
 */
async function notesAbout(world, query) {
  world.model.script(calls({ name: 'search_notes', input: { query } }), says('Searched.'));
  const stream = await world.post('search', { id: 'search' });
  const { output } = await stream.sees('tool-output-available');
  await stream.toEnd();
  return JSON.stringify(output);
}

scenario('an approved call runs and goes on in the same response', {}, async (world) => {
  const { model, version } = world;
  model.script(calls(write()), says('Noted.'));
  const page = await world.page({ sends: version === 5 ? 'outputs' : 'approvals' });
  page.say('note: milk');
  const question = await page.isAsked('write_note');
  assert.deepEqual(question.input, note);
  const [waiting] = await world.pending();
  assert.deepEqual(
    [waiting?.id, waiting?.tool, waiting?.state],
    [question.toolCallId, 'write_note', 'awaiting_approval'],
  );
  await world.answer({ approvalId: question.approvalId, approved: true });
  await page.settles();
  assert.equal(page.calls[0]?.state, 'output-available');
  assert.equal(page.words, 'Noted.');
  assert.equal(page.posts.length, 1);
  assert.match(await notesAbout(world, 'shopping'), /milk/);
});

scenario(
  'a decision that the page knows of is shown as the person made it',
  { versions: [6, 7] },
  async (world) => {
    world.model.script(calls(write()), says('Noted.'));
    const page = await world.page({ sends: 'approvals' });
    page.say('note: milk');
    const { approvalId } = await page.isAsked('write_note');
    await page.decide(approvalId, true, 'go on');
    await world.answer({ approvalId, approved: true, reason: 'go on' });
    await page.settles();
    assert.equal(page.posts.length, 1);
    assert.deepEqual(page.calls[0]?.approval, { id: approvalId, approved: true, reason: 'go on' });
  },
);

scenario('a denied call does not run and the model is told why', {}, async (world) => {
  const { model, version } = world;
  model.script(calls(write()), says('Then not.'));
  const page = await world.page({ sends: version === 5 ? 'outputs' : 'approvals' });
  page.say('note: milk');
  const question = await page.isAsked('write_note');
  const [call] = await world.answer({
    toolCallId: question.toolCallId,
    approved: false,
    reason: 'not on Sundays',
  });
  assert.equal(call?.state, 'cancelled');
  await page.settles();
  assert.equal(page.calls[0]?.state, version === 5 ? 'output-error' : 'output-denied');
  assert.match(model.request(2).results[0]?.text ?? '', /not on Sundays/);
  assert.equal(page.words, 'Then not.');
  assert.equal(page.posts.length, 1);
  assert.doesNotMatch(await notesAbout(world, 'shopping'), /milk/);
});

scenario('"always" decides the later calls of the tool in this chat', {}, async (world) => {
  const { model, version } = world;
  model.script(calls(write()), calls(write({ title: 'work', body: 'mail' })), says('Both.'));
  const page = await world.page();
  page.say('two notes');
  const question = await page.isAsked('write_note');
  await world.answer({ approvalId: question.approvalId, approved: true, always: true });
  await page.settles();
  assert.deepEqual(
    page.calls.map((call) => call.state),
    ['output-available', 'output-available'],
  );
  assert.equal(page.words, 'Both.');

  model.script(calls(write({ title: 'other', body: 'chat' })), says('Stopped.'));
  const elsewhere = await world.post('a note in another chat', { id: 'elsewhere' });
  const asked = await elsewhere.sees(version === 5 ? 'data-tool-approval' : 'tool-approval-request');
  const approvalId = version === 5 ? asked.id : asked.approvalId;
  await world.answer({ chatId: 'elsewhere', approvalId, approved: false });
  await elsewhere.toEnd();
});

scenario('an edited input is shown, run and told to the model', {}, async (world) => {
  const { model } = world;
  const edited = { title: 'shopping', body: 'oat milk' };
  model.script(calls(write()), says('Noted.'));
  const page = await world.page();
  page.say('note: milk');
  const { approvalId } = await page.isAsked('write_note');
  await world.answer({ approvalId, approved: true, input: edited });
  await page.settles();
  assert.deepEqual(page.calls[0]?.input, edited);
  assert.deepEqual(
    model.request(2).calls.map((call) => call.input),
    [edited],
  );
  assert.match(await notesAbout(world, 'shopping'), /oat milk/);
});

scenario(
  'an edited input that misses the schema is refused and the call waits on',
  { versions: [6] },
  async (world) => {
    world.model.script(calls(write()), says('Noted.'));
    const page = await world.page();
    page.say('note: milk');
    const { approvalId } = await page.isAsked('write_note');
    const body = { chatId: world.id, approvalId, approved: true, input: { title: 7 } };
    assert.equal((await world.request('POST', '/chat/tool-result', body)).status, 422);
    assert.equal((await world.pending())[0]?.state, 'awaiting_approval');
    await world.answer({ approvalId, approved: true });
    await page.settles();
    assert.deepEqual(page.calls[0]?.input, note);
  },
);

scenario('no call of a step runs before every call of it is decided', {}, async (world) => {
  const { model } = world;
  model.script(
    calls({ name: 'get_location', input: {} }, write(), { name: 'current_time', input: {} }),
    says('All.'),
  );
  const page = await world.page({ tools: BROWSER_TOOLS });
  page.say('three things');
  const question = await page.isAsked('write_note');
  assert.ok(!page.toolCalls.includes('get_location'), 'the browser is not told to run its call yet');
  assert.deepEqual(
    page.calls.filter((call) => call.state.startsWith('output')),
    [],
  );
  await world.answer({ approvalId: question.approvalId, approved: true });
  const location = await page.shows('get_location', 'input-available');
  await world.answer({ toolCallId: location.toolCallId, output: 'Bern' });
  await page.settles();
  assert.deepEqual(
    page.calls.map((call) => call.state),
    Array(3).fill('output-available'),
  );
  assert.equal(model.request(2).results.length, 3);
  assert.equal(page.posts.length, 1);
});
