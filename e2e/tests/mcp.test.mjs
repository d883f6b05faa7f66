// @ts-check
// The tools of MCP servers that `fermata.toml` names: the reference server from npm, over both transports,
// and one by hand for what it does not do.

import assert from 'node:assert/strict';
import { calls, says } from '../harness/fake-openai.mjs';
import { byHand, everything, everythingOverHttp, everythingUntrusted, letGo } from '../harness/mcp.mjs';
import { scenario } from '../harness/scenario.mjs';
import { until } from '../harness/until.mjs';

/** @typedef {import('../harness/scenario.mjs').ScenarioOptions} ScenarioOptions */

const echo = { name: 'everything__echo', input: { message: 'hello' } };
const toggle = { name: 'everything__toggle-simulated-logging', input: {} };

/** @type {[string, NonNullable<ScenarioOptions['config']>][]} */
const TRANSPORTS = [
  ['stdio', () => everything()],
  ['HTTP', everythingOverHttp],
];

for (const [transport, config] of TRANSPORTS) {
  scenario(
    `the tools of a server over ${transport} are listed with their policies`,
    { versions: [7], config },
    async (world) => {
      const listed = await world.offers('everything__trigger-elicitation-request');
      assert.deepEqual([listed.runBy, listed.policy], ['mcp', 'ask']);
      const tools = new Map((await world.tools()).map((tool) => [tool.name, tool]));
      const found = tools.get('everything__echo');
      assert.deepEqual([found?.runBy, found?.policy], ['mcp', 'allow']);
      assert.match(JSON.stringify(found?.inputSchema), /"message"/);
      assert.equal(tools.get('current_time')?.runBy, 'server');
    },
  );

  scenario(
    `over ${transport} a tool that only reads runs at once and its parts are dynamic`,
    { config },
    async (world) => {
      const { model } = world;
      await world.offers(echo.name);
      model.script(calls(echo), says('It works.'));
      const page = await world.page({ sends: 'outputs' });
      page.say('echo');
      await page.settles();
      const [part] = page.calls;
      assert.deepEqual(
        [part?.type, part?.toolName, part?.state],
        ['dynamic-tool', echo.name, 'output-available'],
      );
      assert.deepEqual(part?.input, echo.input);
      assert.deepEqual(
        part?.output,
        { content: [{ type: 'text', text: 'Echo: hello' }] },
        'the page has the whole result',
      );
      assert.equal(part?.preliminary, undefined);
      assert.deepEqual(
        model.request(2).results,
        [{ name: echo.name, text: 'Echo: hello' }],
        'the model has the text',
      );
      assert.ok(model.request(1).tools.includes(echo.name));
      assert.equal(page.words, 'It works.');
      assert.equal(page.posts.length, 1);
    },
  );

  scenario(
    `over ${transport} any other tool is asked, and runs when it is approved`,
    { config },
    async (world) => {
      await world.offers(toggle.name);
      world.model.script(calls(toggle), says('Toggled.'));
      const page = await world.page({ sends: world.version === 5 ? 'outputs' : 'approvals' });
      page.say('log more');
      const { approvalId } = await page.isAsked(toggle.name);
      assert.equal((await world.pending())[0]?.kind, 'approval');
      await world.answer({ approvalId, approved: true });
      await page.settles();
      assert.equal(page.calls[0]?.type, 'dynamic-tool');
      assert.match(JSON.stringify(page.calls[0]?.output), /logging/);
      assert.equal(page.words, 'Toggled.');
      assert.equal(page.posts.length, 1);
    },
  );

  scenario(`over ${transport} progress comes before the whole result`, { config }, async (world) => {
    const name = 'everything__trigger-long-running-operation';
    await world.offers(name);
    world.model.script(calls({ name, input: { duration: 0.3, steps: 3 } }), says('Done.'));
    const stream = await (await world.post('work')).toEnd();
    assert.ok(stream.done);
    const shown = stream.chunks.filter((chunk) => 'toolCallId' in chunk);
    const undecided = shown.filter((chunk) => chunk.type !== 'tool-input-delta' && chunk.dynamic !== true);
    assert.deepEqual(undecided, [], 'every chunk of the call is dynamic');
    const outputs = shown.filter((chunk) => chunk.type === 'tool-output-available');
    const last = outputs.pop();
    assert.ok(outputs.length > 0, 'there was progress');
    for (const { preliminary, output } of outputs) {
      assert.equal(preliminary, true);
      assert.deepEqual(Object.keys(/** @type {object} */ (output)).sort(), ['progress', 'total']);
    }
    assert.equal(last?.preliminary, undefined);
    assert.match(JSON.stringify(last?.output), /^\{"content":.*completed/);
  });
}

scenario(
  'a tool that says that it only reads is asked about, unless its server is trusted',
  {
    versions: [7],
    config: () => everythingUntrusted(),
  },
  async (world) => {
    await world.offers(echo.name);
    const listed = (await world.tools()).find(({ name }) => name === echo.name);
    assert.deepEqual([listed?.runBy, listed?.policy], ['mcp', 'ask']);
    world.model.script(calls(echo), says('It works.'));
    const page = await world.page({ sends: 'approvals' });
    page.say('echo');
    const { approvalId } = await page.isAsked(echo.name);
    await world.answer({ approvalId, approved: true });
    await page.settles();
    assert.equal(page.words, 'It works.');
  },
);

const ownServer = (/** @type {import('../harness/scenario.mjs').Place} */ place) => byHand(place);

scenario(
  'progress is shown on the page while the call runs, and is not what it ends with',
  { config: ownServer },
  async (world) => {
    const { model } = world;
    await world.offers('hand__report');
    model.script(calls({ name: 'hand__report', input: {} }), says('Reported.'));
    const page = await world.page({ sends: 'outputs' });
    page.say('report');
    const part = await page.shows('hand__report', 'output-available');
    assert.equal(part.preliminary, true);
    assert.deepEqual(part.output, { progress: 1, message: 'started' });
    assert.equal(model.requests.length, 1);
    letGo(world, 'report');
    await page.settles();
    assert.deepEqual(page.calls[0]?.output, {
      content: [{ type: 'text', text: 'done' }],
      structuredContent: { rows: 3 },
    });
    assert.equal(page.calls[0]?.preliminary, undefined);
    assert.deepEqual(model.request(2).results, [{ name: 'hand__report', text: 'done' }]);
    assert.equal(page.posts.length, 1);
  },
);

scenario('a tool that reports without end cannot flood a stream', { config: ownServer }, async (world) => {
  await world.offers('hand__flood');
  world.model.script(calls({ name: 'hand__flood', input: {} }), says('A pity.'));
  const page = await world.page({ sends: 'outputs' });
  page.say('report');
  await until(
    () => /** @type {{ progress?: number } | undefined} */ (page.calls[0]?.output)?.progress === 5000,
    () => `the last report; ${page.outline}`,
  );
  const whole = await world.follow();
  letGo(world, 'flood');
  await page.settles();
  await whole.toEnd();
  assert.ok(whole.chunks.length < 100, `${whole.chunks.length} chunks`);
  assert.deepEqual([page.calls[0]?.state, page.calls[0]?.errorText], ['output-error', 'the pipe has burst']);
  assert.equal(page.words, 'A pity.');
  assert.equal(page.posts.length, 1);
});

scenario(
  'names that providers refuse are made fit, and empty results told',
  { versions: [7], config: ownServer },
  async (world) => {
    const { model } = world;
    await world.offers('hand__look');
    const odd = (await world.tools()).find(({ name }) => name.includes('odd'))?.name ?? '';
    assert.match(odd, /^hand__[A-Za-z0-9_-]{1,58}$/);
    model.script(calls({ name: odd, input: {} }, { name: 'hand__nothing', input: {} }), says('Odd.'));
    const page = await world.page();
    page.say('call it');
    await page.settles();
    assert.deepEqual(
      page.calls.map(({ state }) => state),
      ['output-available', 'output-available'],
    );
    assert.equal(model.request(2).results[0]?.text, 'odd');
  },
);

scenario(
  'a page cannot take the name of an MCP tool, and a choice of an unknown one lists those there are',
  { versions: [7], config: ownServer },
  async (world) => {
    await world.offers('hand__look');
    const message = { id: world.id, messages: [{ role: 'user', content: 'look' }] };
    const tools = { hand__look: { description: 'Mine.', parameters: { type: 'object' } } };
    const taken = await world.request('POST', '/api/chat', { ...message, tools });
    assert.equal(taken.status, 422);
    assert.equal(/** @type {{ code: string }} */ (await taken.json()).code, 'tool_name_taken');
    const unknown = await world.request('POST', '/api/chat', { ...message, selectedToolName: 'hand__nope' });
    assert.equal(unknown.status, 422);
    assert.match(await unknown.text(), /hand__look/);
  },
);

scenario('a result that says that it is an error is one', { config: ownServer }, async (world) => {
  const { model } = world;
  await world.offers('hand__fail');
  model.script(calls({ name: 'hand__fail', input: {} }), says('A pity.'));
  const page = await world.page({ sends: 'outputs' });
  page.say('fail');
  await page.settles();
  assert.equal(page.calls[0]?.state, 'output-error');
  assert.match(page.calls[0]?.errorText ?? '', /the disk is full/);
  assert.match(model.request(2).results[0]?.text ?? '', /the disk is full/);
  assert.equal(page.words, 'A pity.');
  assert.equal(page.posts.length, 1);
});

scenario('the model sees a picture that a tool has given', { config: ownServer }, async (world) => {
  const { model } = world;
  await world.offers('hand__picture');
  model.script(
    calls(
      { name: 'hand__picture', input: {} },
      { name: 'hand__look', input: { key: 'x' } },
      { name: 'hand__picture', input: {} },
    ),
    says('A dot.'),
    says('Still a dot.'),
  );
  const page = await world.page();
  page.say('draw');
  await page.settles();
  for (const turn of [2, 3]) {
    if (turn === 3) {
      page.say('and now?');
      await page.settles();
    }
    const { messages } = model.request(turn);
    const first = messages.findIndex((message) => message.role === 'tool');
    assert.match(JSON.stringify(messages[first]?.content), /a dot/);
    const after = messages[first + 3];
    assert.equal(after?.role, 'user', JSON.stringify(messages));
    assert.equal(JSON.stringify(after?.content).match(/"url":"data:image\/png;base64,iVBOR/g)?.length, 2);
  }
  const { output } = /** @type {{ output: { content: { type: string }[] } }} */ (page.calls[0]);
  assert.deepEqual(
    output.content.map(({ type }) => type),
    ['text', 'image'],
    'the page has it too',
  );
});

scenario(
  'calls of an MCP server, of the server and of the browser end in one step',
  { config: ownServer },
  async (world) => {
    await world.offers('hand__change');
    const tools = { get_location: { description: 'Tells where.', parameters: { type: 'object' } } };
    world.model.script(
      calls(
        { name: 'hand__change', input: { key: 'a' } },
        { name: 'get_location', input: {} },
        { name: 'current_time', input: {} },
      ),
      says('All.'),
    );
    const page = await world.page({ tools });
    page.say('three things');
    const { approvalId } = await page.isAsked('hand__change');
    assert.ok(!page.toolCalls.includes('get_location'));
    await world.answer({ approvalId, approved: true });
    const { toolCallId } = await page.shows('get_location', 'input-available');
    await world.answer({ toolCallId, output: 'Bern' });
    await page.settles();
    assert.deepEqual(
      page.calls.map((call) => call.type),
      ['dynamic-tool', 'tool-get_location', 'tool-current_time'],
    );
    assert.deepEqual(
      page.calls.map((call) => call.state),
      Array(3).fill('output-available'),
    );
  },
);
