// @ts-check
// What the rules of `fermata.toml` make of calls: policies, `approval`, `gate`, `chain`, and all of them read
// again while the server runs.

import assert from 'node:assert/strict';
import { calls, says } from '../harness/fake-openai.mjs';
import { byHand, journal, letGo } from '../harness/mcp.mjs';
import { BROWSER_TOOLS, scenario } from '../harness/scenario.mjs';
import { until } from '../harness/until.mjs';

/** @typedef {import('../harness/scenario.mjs').Place} Place */

const write = (title = 'shopping') => ({ name: 'write_note', input: { title, body: 'milk' } });
const locate = { name: 'get_location', input: { accuracy: 'high' } };
const time = { name: 'current_time', input: {} };

const SECRETS = `
[[policy]]
decision = "deny"
reason = "Secrets stay out."
tool = "write_*"
input = { title = "*secret*" }
from = "server"

[[policy]]
from = "browser"
input = { accuracy = "high" }
decision = "ask"
reason = "Exact places are private."
`;

/** @param {import('../harness/page.mjs').Page} page */
const statesOf = (page) => page.calls.map(({ state }) => state);

// --- policies ---

scenario(
  'what a rule denies is never asked, and the model is told the reason',
  { config: SECRETS },
  async (world) => {
    const { model, version } = world;
    model.script(calls(write('my secret')), says('Then not.'));
    const page = await world.page({ sends: version === 5 ? 'outputs' : 'approvals' });
    page.say('note: my secret');
    await page.settles();
    assert.deepEqual(statesOf(page), [version === 5 ? 'output-error' : 'output-denied']);
    assert.match(model.request(2).results[0]?.text ?? '', /Secrets stay out\./);
    assert.equal(page.words, 'Then not.');
    assert.equal(page.posts.length, 1);
  },
);

scenario(
  'a browser call that a rule asks about is withheld until it is approved',
  { config: SECRETS },
  async (world) => {
    const { version } = world;
    world.model.script(calls(locate), says('Bern.'));
    const page = await world.page({ tools: BROWSER_TOOLS, sends: version === 5 ? 'outputs' : 'approvals' });
    page.say('where am I?');
    // Version 5 would run a call whose input is there, so it sees nothing but the question.
    const [waiting] = await until(async () => {
      const pending = await world.pending().catch(() => []);
      return pending.length > 0 && pending;
    }, 'a question');
    assert.equal(waiting?.kind, 'approval');
    assert.deepEqual(page.toolCalls, []);
    await world.answer({ toolCallId: waiting?.id, approved: true });
    const { toolCallId } = await page.shows('get_location', 'input-available');
    assert.deepEqual(page.toolCalls, ['get_location']);
    await world.answer({ toolCallId, output: 'Bern' });
    await page.settles();
    assert.equal(page.words, 'Bern.');
    assert.equal(page.posts.length, 1);
  },
);

scenario(
  'an edit that a rule denies is refused and the call waits on',
  { versions: [7], config: SECRETS },
  async (world) => {
    world.model.script(calls(write()), says('Noted.'));
    const page = await world.page();
    page.say('note: milk');
    const { approvalId } = await page.isAsked('write_note');
    const { status, body } = await world.tries({
      approvalId,
      approved: true,
      input: write('a secret').input,
    });
    assert.deepEqual([status, body.code], [422, 'denied_by_policy']);
    assert.match(body.detail, /Secrets stay out\./);
    assert.equal((await world.pending())[0]?.state, 'awaiting_approval');
    await world.answer({ approvalId, approved: true });
    await page.settles();
    assert.deepEqual(statesOf(page), ['output-available']);
  },
);

scenario('"always" never outvotes a rule that denies', { versions: [7], config: SECRETS }, async (world) => {
  world.model.script(calls(write()), calls(write('a secret'), write('work')), says('One of them.'));
  const page = await world.page();
  page.say('notes');
  const { approvalId } = await page.isAsked('write_note');
  await world.answer({ approvalId, approved: true, always: true });
  await page.settles();
  assert.deepEqual(statesOf(page), ['output-available', 'output-denied', 'output-available']);
});

// --- approval = "auto" ---

const auto = (/** @type {Place} */ place) => `approval = "auto"\n${byHand(place)}${SECRETS}`;

scenario(
  'with approval = "auto" nobody is asked, and what is denied stays denied',
  { config: auto },
  async (world) => {
    const { model, version } = world;
    await world.offers('hand__change');
    model.script(
      calls(write(), { name: 'hand__change', input: { key: 'x' } }, write('a secret'), locate),
      says('Done.'),
    );
    const page = await world.page({ tools: BROWSER_TOOLS, sends: version === 5 ? 'outputs' : 'approvals' });
    page.say('do it all');
    const { toolCallId } = await page.shows('get_location', 'input-available');
    await world.answer({ toolCallId, output: 'Bern' });
    await page.settles();
    assert.deepEqual(statesOf(page), [
      'output-available',
      'output-available',
      'output-error',
      'output-available',
    ]);
    assert.match(model.request(2).results[2]?.text ?? '', /Secrets stay out\./);
    assert.equal(page.words, 'Done.');
    assert.equal(page.posts.length, 1);
  },
);

// --- chain = "ask" ---

scenario(
  'with chain = "ask" every call after the first result of a turn is asked',
  { config: 'chain = "ask"\n' },
  async (world) => {
    const { model, version } = world;
    model.script(calls(time), calls(time), says('Noon.'));
    const page = await world.page({ sends: version === 5 ? 'outputs' : 'approvals' });
    page.say('what time is it?');
    const { approvalId } = await page.isAsked('current_time');
    assert.deepEqual(model.requests.length, 2);
    assert.equal(page.calls[0]?.state, 'output-available');
    await world.answer({ approvalId, approved: true });
    await page.settles();
    assert.deepEqual(statesOf(page), ['output-available', 'output-available']);

    model.script(calls(time), says('Still noon.'));
    page.say('and now?');
    await page.settles();
    assert.equal(page.words, 'Still noon.', 'a new turn begins without a result');
  },
);

scenario(
  'with chain = "ask" a re-posted approval goes on, also with a browser call',
  { versions: [6, 7], config: 'chain = "ask"\n' },
  async (world) => {
    const { model } = world;
    model.script(calls(time), calls(locate), says('Bern.'));
    const page = await world.page({ tools: BROWSER_TOOLS, sends: 'approvals', hold: '0s' });
    page.say('where am I?');
    await page.settles();
    const { approvalId } = await page.isAsked('get_location');
    assert.ok(!page.toolCalls.includes('get_location'));
    await page.decide(approvalId, true);
    await page.postsAgain();
    const part = await page.shows('get_location', 'input-available');
    await page.settles();
    assert.ok(page.toolCalls.includes('get_location'));
    await world.answer({ toolCallId: part.toolCallId, output: 'Bern' });
    await page.resume();
    await page.settles();
    assert.equal(page.words, 'Bern.');
  },
);

scenario(
  'with chain = "ask" an error is a result too, for somebody else has written it',
  {
    versions: [7],
    config: (place) => `chain = "ask"\n${byHand(place)}`,
  },
  async (world) => {
    await world.offers('hand__fail');
    world.model.script(calls({ name: 'hand__fail', input: {} }), calls(time), says('Noon.'));
    const page = await world.page();
    page.say('what time is it?');
    const { approvalId } = await page.isAsked('current_time');
    await world.answer({ approvalId, approved: true });
    await page.settles();
    assert.deepEqual(statesOf(page), ['output-error', 'output-available']);
  },
);

// --- chain = "one" ---

scenario(
  'with chain = "one" a step runs one call, and the model is told to make the other again',
  { config: 'chain = "one"\n' },
  async (world) => {
    world.model.script(calls(time, locate), calls(locate), says('Noon, in Bern.'));
    const page = await world.page({ tools: BROWSER_TOOLS });
    page.say('when and where?');
    const part = await page.shows('get_location', 'input-available');
    assert.equal(
      page.toolCalls.filter((name) => name === 'get_location').length,
      1,
      'the cancelled one never came',
    );
    await world.answer({ toolCallId: part.toolCallId, output: 'Bern' });
    await page.settles();
    assert.deepEqual(statesOf(page), ['output-available', 'output-error', 'output-available']);
    assert.match(world.model.request(2).results[1]?.text ?? '', /Make it again/);
    assert.equal(page.words, 'Noon, in Bern.');
    assert.equal(page.posts.length, 1);
  },
);

// --- a chosen tool ---

scenario('an answer without the tool that the user has chosen is shown to nobody', {}, async (world) => {
  world.model.script(says('I know it anyway.'), calls(time), says('Noon.'));
  const page = await world.page({ chosen: 'current_time' });
  page.say('what time is it?');
  await page.settles();
  assert.equal(page.words, 'Noon.');
  assert.deepEqual(statesOf(page), ['output-available']);
  const forced = { type: 'function', function: { name: 'current_time' } };
  assert.deepEqual(
    world.model.requests.map(({ toolChoice }) => toolChoice),
    [forced, forced, undefined],
  );
  assert.ok(!JSON.stringify(world.model.requests.at(-1)?.messages).includes('I know it anyway'));
});

scenario('a run whose model does not call the chosen tool ends with an error', {}, async (world) => {
  world.model.script(says('No need.'), says('Truly not.'));
  world.expectErrors();
  const page = await world.page({ chosen: 'current_time' });
  page.say('what time is it?');
  await page.settles();
  assert.match(page.errors[0]?.message ?? '', /asked twice to call the tool current_time/);
  assert.ok(!JSON.stringify(page.messages).includes('No need'));
});

// --- gate = "progressive" ---

const progressive = (/** @type {Place} */ place) => `gate = "progressive"\n${byHand(place)}`;

scenario(
  'a progressive gate lets each call run once it is decided itself',
  { config: progressive },
  async (world) => {
    const { model, version } = world;
    await world.offers('hand__look');
    model.script(calls(write(), locate, { name: 'hand__look', input: { key: 'x' } }), says('All.'));
    const page = await world.page({ tools: BROWSER_TOOLS, sends: version === 5 ? 'outputs' : 'approvals' });
    page.say('three things');
    await page.shows('hand__look', 'output-available');
    const { toolCallId } = await page.shows('get_location', 'input-available');
    const { approvalId } = await page.isAsked('write_note');
    assert.equal(model.requests.length, 1, 'the model waits for all of them');
    await world.answer({ toolCallId, output: 'Bern' });
    await page.shows('get_location', 'output-available');
    assert.equal(model.requests.length, 1);
    await world.answer({ approvalId, approved: true });
    await page.settles();
    assert.deepEqual(statesOf(page), Array(3).fill('output-available'));
    assert.equal(page.words, 'All.');
    assert.equal(page.posts.length, 1);
  },
);

scenario(
  'with a progressive gate a re-post of each answer goes on',
  { versions: [6, 7], config: progressive },
  async (world) => {
    const { model } = world;
    await world.offers('hand__look');
    model.script(calls(write(), { name: 'hand__look', input: { key: 'x' } }, write('work')), says('All.'));
    const page = await world.page({ sends: 'approvals', hold: '0s' });
    page.say('three things');
    await page.settles();
    assert.equal((await page.shows('hand__look', 'output-available')).state, 'output-available');
    const questions = page.calls
      .filter(({ state }) => state === 'approval-requested')
      .map(({ approval }) => approval?.id ?? '');
    assert.equal(questions.length, 2);
    await page.decide(questions[0] ?? '', true);
    await page.settles();
    await page.decide(questions[1] ?? '', false, 'not work');
    await page.postsAgain();
    assert.deepEqual(statesOf(page), ['output-available', 'output-available', 'output-denied']);
    assert.match(model.request(2).results[2]?.text ?? '', /not work/);
    assert.equal(page.words, 'All.');
    assert.equal(page.messages.length, 2);
  },
);

scenario(
  'with a progressive gate an output posted again goes on',
  { versions: [6, 7], config: progressive },
  async (world) => {
    const { model } = world;
    await world.offers('hand__look');
    model.script(
      calls(locate, { name: 'hand__look', input: { key: 'x' } }, { name: 'pick_color', input: {} }),
      says('All.'),
    );
    const page = await world.page({ tools: BROWSER_TOOLS, sends: 'outputs', hold: '0s' });
    page.say('three things');
    await page.settles();
    await page.output(await page.shows('pick_color', 'input-available'), 'red');
    await page.output(await page.shows('get_location', 'input-available'), 'Bern');
    await page.postsAgain();
    assert.deepEqual(statesOf(page), Array(3).fill('output-available'));
    assert.equal(page.words, 'All.');
    assert.equal(page.posts.length, 2);
  },
);

scenario(
  'with a progressive gate the stream is not let go while a call runs',
  { versions: [7], config: progressive },
  async (world) => {
    await world.offers('hand__work');
    world.model.script(calls(write(), { name: 'hand__work', input: { key: 'x' } }));
    const stream = await world.post('two things', { fermata: { client: 7, hold: '0s' } });
    await until(() => journal(world).some(({ event }) => event === 'begin'), 'the call to run');
    const { approvalId } = await stream.sees('tool-approval-request');
    letGo(world, 'x');
    await stream.toEnd();
    assert.ok(stream.done);
    assert.ok(stream.chunks.some(({ type }) => type === 'tool-output-available'));
    world.model.script(says('Both.'));
    await world.answer({ approvalId, approved: true });
    const rest = await world.follow();
    await rest.toEnd();
    const text = async () => (await world.stored()).at(-1)?.parts.find((part) => part.type === 'text')?.text;
    await until(async () => (await text()) === 'Both.', 'the whole message');
  },
);

scenario(
  'with a progressive gate a denial beside an open browser call makes no client post',
  { config: progressive },
  async (world) => {
    world.model.script(calls(write(), locate), says('Bern.'));
    const page = await world.page({ tools: BROWSER_TOOLS, sends: 'outputs' });
    page.say('two things');
    const { approvalId } = await page.isAsked('write_note');
    const { toolCallId } = await page.shows('get_location', 'input-available');
    await world.answer({ approvalId, approved: false, reason: 'no' });
    await page.shows('write_note', 'output-error');
    await world.answer({ toolCallId, output: 'Bern' });
    await page.settles();
    assert.equal(page.words, 'Bern.');
    assert.equal(page.posts.length, 1);
  },
);

// --- read again ---

scenario('rules that are read again count from the next step', { versions: [6] }, async (world) => {
  const { model, server } = world;
  model.script(calls(write()));
  const page = await world.page({ sends: 'approvals' });
  page.say('note: milk');
  const { approvalId } = await page.isAsked('write_note');
  // There was no file at the start; one that is there now is read.
  const said = await server.reconfigure(`approval = "auto"\n${SECRETS}`);
  assert.match(said, /approval/);
  assert.match(said, /policy/);
  assert.equal((await world.pending()).length, 1, 'what was asked stays asked');
  model.script(calls(write('a secret')), calls(write('work')), says('Noted.'));
  await world.answer({ approvalId, approved: true });
  await page.settles();
  assert.deepEqual(statesOf(page), ['output-available', 'output-denied', 'output-available']);
  assert.equal(page.words, 'Noted.');
});

scenario(
  'a bad file is refused with its line, and the old rules stay',
  { versions: [7], config: SECRETS },
  async (world) => {
    const { model, server } = world;
    /** @type {[string, RegExp][]} */
    const faulty = [
      ['approval = "default"\n\n[[policy]]\ntool = "write_note"\ndecision = "perhaps"\n', /fermata\.toml:5/],
      ['approval = "auto"\nunheard_of = 1\n', /fermata\.toml:2/],
      ['[[policy]]\ndecision = "allow"\nbecause = "x"\n', /fermata\.toml:3/],
      ['[mcp.x]\ncommand = "a"\nurl = "http://localhost/mcp"\n', /fermata\.toml:[123]/],
      ['[mcp.x]\n', /fermata\.toml:1/],
      ['[tools."a*"]\ntimeout = "soon"\n', /fermata\.toml:2/],
      ['gate = \n', /fermata\.toml:1/],
      ['[mcp.x]\ncommand = "a"\nenv = { A = "${NOT_SET_ANYWHERE}" }\n', /fermata\.toml:3.*NOT_SET_ANYWHERE/],
    ];
    for (const [config, line] of faulty) {
      const said = await server.reconfigure(config);
      assert.match(said, line, config);
      assert.match(said, /not reloaded/, config);
    }
    model.script(calls(write('a secret')), says('Then not.'));
    const page = await world.page();
    page.say('note: a secret');
    await page.settles();
    assert.deepEqual(statesOf(page), ['output-denied']);
  },
);

scenario(
  'settings that need a restart are said to need one',
  { versions: [7], config: 'max_steps = 3\n' },
  async (world) => {
    const said = await world.server.reconfigure('max_steps = 4\nhold = "1s"\n');
    await until(
      () => /max_steps/.test(world.server.log) && /hold/.test(world.server.log),
      () => `a warning: ${said}`,
    );
  },
);

scenario(
  'the listed policy is what a call of the tool would meet',
  {
    versions: [7],
    config: (place) => `${byHand(place)}[[policy]]\ntool = "hand__look"\ndecision = "deny"\n`,
  },
  async (world) => {
    assert.equal((await world.offers('hand__look')).policy, 'deny');
  },
);
