// @ts-check
// What an MCP server asks the person while its call runs: shown in the stream and in the pending list,
// answered like a call, and gone with its call.

import assert from 'node:assert/strict';
import { calls, says } from '../harness/fake-openai.mjs';
import { byHand, everything, everythingOverHttp, journal, letGo, processOf, times } from '../harness/mcp.mjs';
import { BROWSER_TOOLS, scenario } from '../harness/scenario.mjs';
import { until } from '../harness/until.mjs';

/** @typedef {import('../harness/scenario.mjs').World} World */
/** @typedef {import('../harness/scenario.mjs').Place} Place */
/** @typedef {import('../harness/scenario.mjs').ScenarioOptions} ScenarioOptions */
/**
 * @typedef {{ elicitationId: string, toolCallId: string, message: string, requestedSchema: any, server:
 * string, state: string }} Question
 */

const TOOL = 'everything__trigger-elicitation-request';
const ask = { name: TOOL, input: {} };
const good = { name: 'Ann', check: true };
const allowed = '[[policy]]\nfrom = "mcp"\ndecision = "allow"\n';

const config = () => everything() + allowed;
/** @type {[string, NonNullable<ScenarioOptions['config']>][]} */
const TRANSPORTS = [
  ['stdio', config],
  ['HTTP', async (place) => (await everythingOverHttp(place)) + allowed],
];

/**
 * The states of the question that a stream has shown.
 *
 * @param {import('../harness/events.mjs').EventStream} stream
 */
const states = (stream) =>
  stream.chunks
    .filter((chunk) => chunk.type === 'data-elicitation')
    .map((chunk) => /** @type {Question} */ (chunk.data).state);

/**
 * A stream whose call asks.
 *
 * @param {World} world
 * @param {Record<string, unknown>} [more]
 */
async function asking(world, more) {
  await world.offers(TOOL);
  const stream = await world.post('ask me', more);
  const chunk = await stream.sees('data-elicitation');
  const question = /** @type {Question} */ (chunk.data);
  assert.equal(chunk.id, question.elicitationId);
  return { stream, question, elicitationId: question.elicitationId };
}

/**
 * Returns the number of waits in the chat of a world, from the list of chats.
 *
 * @param {World} world
 */
async function listedAsPending(world) {
  const { chats } = /** @type {{ chats: { id: string, pending: number }[] }} */ (
    await (await world.request('GET', '/api/chats')).json()
  );
  return chats.find(({ id }) => id === world.id)?.pending;
}

for (const [transport, config] of TRANSPORTS) {
  scenario(
    `over ${transport} a question is shown, answered, and its call goes on in the same response`,
    { config },
    async (world) => {
      const { model } = world;
      model.script(calls(ask), says('Hello Ann.'));
      await world.offers(TOOL);
      const page = await world.page({ sends: world.version === 5 ? 'outputs' : 'approvals' });
      page.say('ask me');
      const shown = () =>
        page.messages.flatMap(({ parts }) => parts).filter((part) => part.type === 'data-elicitation');
      await until(
        () => shown().length > 0,
        () => `a question; ${page.outline}`,
      );
      const question = /** @type {Question} */ (shown()[0]?.data);
      const { elicitationId } = question;
      assert.equal(question.state, 'pending');
      assert.equal(question.toolCallId, page.calls[0]?.toolCallId);
      assert.match(question.message, /inputs/);
      assert.deepEqual(question.requestedSchema.required, ['name']);
      assert.equal(question.server, 'everything');
      const waiting = await world.pending();
      assert.deepEqual(
        waiting.map(({ kind, id, tool, state, server }) => [kind, id, tool, state, server]),
        [['elicitation', elicitationId, TOOL, 'executing', 'everything']],
      );
      assert.equal(await listedAsPending(world), 1);
      const taken = await world.answer({ elicitationId, action: 'accept', content: good });
      assert.deepEqual(
        taken.map(({ toolCallId, waitingFor }) => [toolCallId, waitingFor]),
        [[question.toolCallId, []]],
      );
      await page.settles();
      assert.equal(shown().length, 1, 'the question changes in its place');
      assert.equal(/** @type {Question} */ (shown()[0]?.data).state, 'accepted');
      assert.match(JSON.stringify(page.calls[0]?.output), /Name: Ann/);
      assert.match(model.request(2).results[0]?.text ?? '', /Name: Ann/);
      assert.equal(page.words, 'Hello Ann.');
      assert.equal(page.posts.length, 1);
      assert.deepEqual(await world.pending(), []);
      assert.equal(await listedAsPending(world), 0);
    },
  );
}

scenario(
  'an answer that misses the schema is refused and the question waits on',
  { versions: [6], config },
  async (world) => {
    world.model.script(calls(ask), says('Hello.'));
    const { stream, elicitationId } = await asking(world);
    for (const content of [{}, { name: 7 }, { ...good, integer: 101 }, 'Ann', [], null, undefined]) {
      const { status, body } = await world.tries({ elicitationId, action: 'accept', content });
      assert.equal(status, 422, `${JSON.stringify(content)}: ${JSON.stringify(body)}`);
    }
    assert.equal((await world.tries({ elicitationId, action: 'shrug' })).status, 422);
    assert.deepEqual(
      (await world.pending()).map(({ id }) => id),
      [elicitationId],
    );
    await world.answer({ elicitationId, action: 'accept', content: good });
    await stream.toEnd();
    assert.deepEqual(states(stream), ['pending', 'accepted']);
  },
);

scenario(
  'an answer that misses a format is refused',
  {
    versions: [6],
    config,
  },
  async (world) => {
    world.model.script(calls(ask), says('Hello.'));
    const { stream, elicitationId } = await asking(world);
    const { status } = await world.tries({
      elicitationId,
      action: 'accept',
      content: { ...good, email: 'nobody' },
    });
    assert.equal(status, 422);
    await world.answer({ elicitationId, action: 'accept', content: { ...good, email: 'ann@example.com' } });
    await stream.toEnd();
  },
);

scenario('the same answer again is taken, another one is not', { versions: [7], config }, async (world) => {
  world.model.script(calls(ask), says('Hello.'));
  const { stream, elicitationId } = await asking(world);
  const accept = { elicitationId, action: 'accept', content: good };
  const [first, again] = [
    await world.tries(accept),
    await world.tries({ ...accept, content: { check: true, name: 'Ann' } }),
  ];
  assert.deepEqual([first.status, again.status], [200, 200]);
  const others = [
    { ...accept, content: { name: 'Bob' } },
    { elicitationId, action: 'decline' },
  ];
  for (const other of others) {
    const { status, body } = await world.tries(other);
    assert.deepEqual([status, body.code], [409, 'already_answered']);
  }
  await stream.toEnd();
  assert.deepEqual(states(stream), ['pending', 'accepted']);
  assert.equal((await world.tries(accept)).status, 200, 'also when the run is over');
  assert.equal((await world.tries({ elicitationId, action: 'decline' })).status, 409);
});

scenario(
  'a second answer racing the first is told that it came too late',
  { versions: [6], config },
  async (world) => {
    world.model.script(calls(ask), says('Hello.'));
    const { stream, elicitationId } = await asking(world);
    const answers = [{ action: 'accept', content: good }, { action: 'decline' }, { action: 'cancel' }];
    const taken = await Promise.all(answers.map((answer) => world.tries({ elicitationId, ...answer })));
    assert.deepEqual(taken.map(({ status }) => status).sort(), [200, 409, 409]);
    await stream.toEnd();
  },
);

/** @type {[string, string, RegExp][]} */
const REFUSALS = [
  ['decline', 'declined', /declined/],
  ['cancel', 'cancelled', /cancelled/],
];
for (const [action, state, told] of REFUSALS) {
  scenario(`the tool is told of "${action}", and so is the page`, { config }, async (world) => {
    world.model.script(calls(ask), says('Then not.'));
    const { stream, elicitationId } = await asking(world);
    await world.answer({ elicitationId, action });
    await stream.toEnd();
    assert.deepEqual(states(stream), ['pending', state]);
    assert.match(world.model.request(2).results[0]?.text ?? '', told);
  });
}

scenario('stop withdraws the question, and a later answer is gone', { config }, async (world) => {
  const { model, version } = world;
  model.script(calls(ask), says('Hello again.'));
  await world.offers(TOOL);
  const page = await world.page({ sends: version === 5 ? 'outputs' : 'approvals' });
  page.say('ask me');
  const [question] = await until(async () => {
    const pending = await world.pending().catch(() => []);
    return pending.length > 0 && pending;
  }, 'a question');
  await world.stop();
  await page.settles();
  const shown = page.messages.flatMap(({ parts }) => parts).find((part) => part.type === 'data-elicitation');
  assert.equal(/** @type {Question} */ (shown?.data).state, 'cancelled');
  assert.equal(page.posts.length, 1, 'no client posts again');
  const { status, body } = await world.tries({
    elicitationId: question?.id,
    action: 'accept',
    content: good,
  });
  assert.deepEqual([status, body.code], [410, 'gone']);
  assert.deepEqual(await world.pending(), []);
  page.say('hello');
  await page.settles();
  assert.equal(page.words, 'Hello again.');
});

scenario('a newer message withdraws the question', { versions: [7], config }, async (world) => {
  world.model.script(calls(ask), says('Something else.'));
  const { stream, elicitationId } = await asking(world);
  const newer = await (await world.post('something else')).toEnd();
  await stream.toEnd();
  assert.ok(newer.done && stream.done);
  const { status } = await world.tries({ elicitationId, action: 'accept', content: good });
  assert.equal(status, 410);
});

scenario('a question that nobody asked is not found', { versions: [6], config }, async (world) => {
  world.model.script(calls(ask), says('Hello.'));
  const { stream, elicitationId } = await asking(world);
  for (const answer of [{ elicitationId: 'elic_unknown' }, { chatId: 'elsewhere', elicitationId }]) {
    const { status, body } = await world.tries({ ...answer, action: 'accept', content: good });
    assert.deepEqual([status, body.code], [404, 'not_found']);
  }
  await world.answer({ elicitationId, action: 'decline' });
  await stream.toEnd();
});

scenario('an output or a decision is no answer to a question', { versions: [6], config }, async (world) => {
  world.model.script(calls(ask), says('Hello.'));
  const { stream, question, elicitationId } = await asking(world);
  for (const answer of [{ output: 'Ann' }, { approved: true }, { errorText: 'no' }]) {
    const { status, body } = await world.tries({ toolCallId: question.toolCallId, ...answer });
    assert.deepEqual([status, body.code], [409, 'wrong_answer'], JSON.stringify(answer));
  }
  await world.answer({ elicitationId, action: 'decline' });
  await stream.toEnd();
});

scenario('a question that was let go is answered later', { versions: [5, 6, 7], config }, async (world) => {
  world.model.script(calls(ask), says('Hello Ann.'));
  await world.offers(TOOL);
  const page = await world.page({ hold: '0s' });
  page.say('ask me');
  await page.settles();
  const [question] = await world.pending();
  assert.equal(question?.kind, 'elicitation');
  await world.answer({ elicitationId: question?.id, action: 'accept', content: good });
  await page.resume();
  await page.settles();
  assert.equal(page.words, 'Hello Ann.');
});

const tokens = { FERMATA_AUTH: 'token', FERMATA_TOKENS: 'alice:the-secret-of-alice,bob:the-secret-of-bob' };
scenario(
  'a question is shown to its owner only',
  { versions: [7], config, settings: tokens },
  async (world) => {
    world.model.script(calls(ask), says('Hello Ann.'));
    const [alice, bob] = ['the-secret-of-alice', 'the-secret-of-bob'].map((token) => ({
      authorization: `Bearer ${token}`,
    }));
    await until(
      async () => (await (await world.request('GET', '/api/tools', undefined, alice)).text()).includes(TOOL),
      'the tool',
    );
    const stream = await world.post('ask me', {}, alice);
    const { elicitationId } = /** @type {Question} */ ((await stream.sees('data-elicitation')).data);
    const accept = { elicitationId, action: 'accept', content: good };
    assert.equal((await world.request('GET', `/api/chat/${world.id}/pending`, undefined, bob)).status, 404);
    assert.equal((await world.request('GET', `/api/chat/${world.id}/stream`, undefined, bob)).status, 204);
    const chats = await world.request('GET', '/api/chats', undefined, bob);
    assert.doesNotMatch(await chats.text(), new RegExp(world.id));
    const { status, body } = await world.tries(accept, bob);
    assert.deepEqual([status, body.code], [404, 'not_found']);
    assert.equal((await world.tries(accept)).status, 401);
    assert.equal((await world.tries(accept, alice)).status, 200);
    await stream.toEnd();
    assert.deepEqual(states(stream), ['pending', 'accepted']);
  },
);

// --- with the server by hand, which asks for a color ---

const ASK = 'hand__ask';
const red = { action: 'accept', content: { color: 'red' } };

/**
 * Has the server by hand ask, in the chat of the world.
 *
 * @param {World} world
 * @param {Record<string, unknown>} [more]
 */
async function askingForColor(world, more) {
  await world.offers(ASK);
  world.model.script(calls({ name: ASK, input: { key: 'Ann' } }));
  const stream = await world.post('ask me', more);
  const { elicitationId } = /** @type {Question} */ ((await stream.sees('data-elicitation')).data);
  return { stream, elicitationId };
}

/** @type {[string, Record<string, unknown>, Record<string, unknown>][]} */
const OVER = [
  ['accepted', red, { action: 'decline' }],
  ['accepted with a content', red, { action: 'accept', content: { color: 'blue' } }],
  ['declined', { action: 'decline' }, red],
  ['cancelled', { action: 'cancel' }, red],
];
for (const [state, answer, other] of OVER) {
  scenario(
    `what was ${state} stays so when the run is over`,
    { versions: [7], config: byHand },
    async (world) => {
      const { stream, elicitationId } = await askingForColor(world);
      world.model.script(says('Thanks.'));
      await world.answer({ elicitationId, ...answer });
      await stream.toEnd();
      await until(async () => (await (await world.follow()).toEnd()).status === 204, 'the run to be over');
      assert.equal((await world.tries({ elicitationId, ...answer })).status, 200, 'the same answer');
      assert.equal((await world.tries({ elicitationId, ...other })).status, 409, 'another answer');
    },
  );
}

scenario(
  "the time in which a person is asked is not the tool's",
  {
    versions: [7],
    config: (place) => `${byHand(place)}[tools."hand__*"]\ntimeout = "1s"\n[errors]\ntimeout = "go_on"\n`,
  },
  async (world) => {
    const { model } = world;
    const { stream, elicitationId } = await askingForColor(world, { id: 'asked' });
    // A call that has run out of its second shows that the other one has had more than that.
    model.script(calls({ name: 'hand__slow_look', input: {} }), says('Too slow.'));
    const other = await (await world.post('look slowly', { id: 'slow' })).toEnd();
    assert.ok(other.chunks.some(({ type }) => type === 'tool-output-error'));
    model.script(says('Red.'));
    await world.answer({ chatId: 'asked', elicitationId, ...red });
    await stream.toEnd();
    assert.ok(
      stream.chunks.some(({ type }) => type === 'tool-output-available'),
      stream.outline,
    );
  },
);

const askedOnce = (/** @type {Place} */ place) => `${byHand(place)}[tools."hand__*"]\nrepeatable = false\n`;
scenario('a question ends with its server', { config: askedOnce }, async (world) => {
  const { stream, elicitationId } = await askingForColor(world);
  world.model.script(says('A pity.'));
  process.kill(processOf(world), 'SIGKILL');
  await stream.toEnd();
  assert.deepEqual(states(stream), ['pending', 'cancelled']);
  assert.ok(stream.chunks.some(({ type }) => type === 'tool-output-error'));
  assert.equal((await world.tries({ elicitationId, ...red })).status, 410);
});

scenario('a question does not survive a restart', { config: askedOnce }, async (world) => {
  const { elicitationId } = await askingForColor(world);
  await world.server.kill();
  // The server resumes the run when it starts.
  world.model.script(says('Went on.'));
  await world.server.start();
  const page = await world.page();
  await page.resume();
  await page.settles();
  const shown = page.reply.parts.find(({ type }) => type === 'data-elicitation');
  assert.equal(/** @type {Question} */ (shown?.data).state, 'cancelled');
  assert.equal(page.calls[0]?.state, 'output-error');
  assert.equal(page.words, 'Went on.');
  assert.equal((await world.tries({ elicitationId, ...red })).status, 410);
});

scenario(
  'a question that nobody answers expires',
  { config: byHand, settings: { FERMATA_EXPIRE: '1s' } },
  async (world) => {
    const { stream, elicitationId } = await askingForColor(world);
    await stream.toEnd();
    assert.ok(stream.done);
    assert.deepEqual(states(stream), ['pending', 'cancelled']);
    assert.equal((await world.tries({ elicitationId, ...red })).status, 410);
    await until(() => times(world, 'cancelled') + times(world, 'answered') > 0, 'the server to be told');
  },
);

scenario(
  'answers to a question and to a browser call are taken together or not at all',
  { versions: [7], config: byHand },
  async (world) => {
    await world.offers(ASK);
    world.model.script(calls({ name: ASK, input: {} }, { name: 'get_location', input: {} }), says('Both.'));
    const page = await world.page({ tools: BROWSER_TOOLS });
    page.say('two things');
    const { toolCallId } = await page.shows('get_location', 'input-available');
    const [question] = await until(async () => {
      const found = (await world.pending()).filter(({ kind }) => kind === 'elicitation');
      return found.length > 0 && found;
    }, 'a question');
    const output = { toolCallId, output: 'Bern' };
    const wrong = { elicitationId: question?.id, action: 'accept', content: { color: 'green' } };
    assert.equal((await world.tries({ answers: [output, wrong] })).status, 422);
    assert.equal((await world.pending()).length, 2);
    await world.answer({ answers: [output, { elicitationId: question?.id, ...red }] });
    await page.settles();
    assert.equal(page.words, 'Both.');
  },
);

scenario(
  'over stdio a question left open in one chat keeps no other chat from being asked',
  { versions: [7], config: byHand },
  async (world) => {
    const { model } = world;
    const ann = await askingForColor(world, { id: 'ann' });
    const bob = await askingForColor(world, { id: 'bob' });
    assert.notEqual(ann.elicitationId, bob.elicitationId);
    for (const { chatId, asked } of [
      { chatId: 'bob', asked: bob },
      { chatId: 'ann', asked: ann },
    ]) {
      model.script(says('Thanks.'));
      await world.answer({ chatId, elicitationId: asked.elicitationId, ...red });
      await asked.stream.toEnd();
      assert.deepEqual(states(asked.stream), ['pending', 'accepted']);
    }
  },
);

scenario(
  'a first question that may be of two chats is shown to none, and both are told why',
  { versions: [7], config: byHand },
  async (world) => {
    const { model } = world;
    await world.offers(ASK);
    model.script(calls({ name: 'hand__work', input: { key: 'a' } }));
    const other = await world.post('work', { id: 'other' });
    await until(() => journal(world).some(({ event }) => event === 'begin'), 'the call to run');
    model.script(calls({ name: ASK, input: {} }), says('Not asked.'));
    const stream = await (await world.post('ask me')).toEnd();
    assert.deepEqual(states(stream), []);
    assert.match(
      model.request(3).results[0]?.text ?? '',
      /"action":"cancel".*From now on each chat has a process of its own/s,
    );
    model.script(says('Worked.'));
    letGo(world, 'a');
    await other.toEnd();
    assert.deepEqual(states(other), []);
    await until(() => /WARN.*elicitation.*hand/.test(world.server.log), 'a warning in the log');
    const again = await askingForColor(world, { id: 'again' });
    model.script(says('Red.'));
    await world.answer({ chatId: 'again', elicitationId: again.elicitationId, ...red });
    await again.stream.toEnd();
  },
);

scenario(
  'over HTTP each of two chats has its own question',
  { versions: [7], config: TRANSPORTS[1]?.[1] ?? '' },
  async (world) => {
    const { model } = world;
    model.script(calls(ask), calls(ask), says('Hello.'), says('Hello.'));
    const [ann, bob] = [await asking(world, { id: 'ann' }), await asking(world, { id: 'bob' })];
    assert.equal(
      (await world.tries({ chatId: 'ann', elicitationId: bob.elicitationId, action: 'decline' })).status,
      404,
    );
    await world.answer({
      chatId: 'bob',
      elicitationId: bob.elicitationId,
      action: 'accept',
      content: { name: 'Bob' },
    });
    await bob.stream.toEnd();
    assert.deepEqual(states(ann.stream), ['pending']);
    await world.answer({
      chatId: 'ann',
      elicitationId: ann.elicitationId,
      action: 'accept',
      content: { name: 'Ann' },
    });
    await ann.stream.toEnd();
    const told = model.requests.slice(2).map((request) => request.results[0]?.text.match(/Name: (\w+)/)?.[1]);
    assert.deepEqual(told, ['Bob', 'Ann']);
  },
);

scenario(
  'over stdio a question does not end with another call of its chat',
  {
    versions: [7],
    config: byHand,
  },
  async (world) => {
    await world.offers(ASK);
    world.model.script(
      calls({ name: ASK, input: { key: 'Ann' } }, { name: ASK, input: { key: 'Bob' } }),
      says('Both.'),
    );
    const stream = await world.post('ask us');
    const question = async (/** @type {string} */ name) =>
      /** @type {Question} */ (
        (await stream.sees('data-elicitation', ({ data }) => JSON.stringify(data).includes(name))).data
      );
    const [ann, bob] = [await question('Ann'), await question('Bob')];
    await world.answer({ elicitationId: bob.elicitationId, ...red });
    await stream.sees('tool-output-available');
    const { status } = await world.tries({ elicitationId: ann.elicitationId, ...red });
    await stream.toEnd();
    assert.equal(status, 200);
  },
);
