// @ts-check
// MCP servers that die, cannot be started, come and go, and what of Fermata's environment they see. None of
// them takes a chat down.

import assert from 'node:assert/strict';
import { API_KEY, calls, says } from '../harness/fake-openai.mjs';
import { byHand, everything, isThere, journal, letGo, processOf, times } from '../harness/mcp.mjs';
import { scenario } from '../harness/scenario.mjs';
import { until } from '../harness/until.mjs';

/** @typedef {import('../harness/scenario.mjs').Place} Place */

const call = (/** @type {string} */ name, input = {}) => ({ name, input });
const notRepeatable = (/** @type {Place} */ place) =>
  `${byHand(place)}[tools."hand__*"]\nrepeatable = false\n`;

scenario(
  'a server that dies in a call fails it, and the next call finds it again',
  { config: notRepeatable },
  async (world) => {
    const { model } = world;
    await world.offers('hand__die');
    model.script(calls(call('hand__die')), calls(call('hand__look', { key: 'x' })), says('It is back.'));
    const page = await world.page({ sends: 'outputs' });
    page.say('die');
    await page.settles();
    const [died, looked] = page.calls;
    assert.equal(died?.state, 'output-error');
    assert.match(died?.errorText ?? '', /MCP server/i);
    assert.match(died?.errorText ?? '', /hand|ended|lost|gone|connection/i);
    assert.match(model.request(2).results[0]?.text ?? '', /^Error: .+/);
    assert.match(JSON.stringify(looked?.output), /saw x/);
    assert.equal(page.words, 'It is back.');
    assert.equal(page.posts.length, 1);
    const pids = journal(world)
      .filter(({ event }) => event === 'started')
      .map(({ about }) => about);
    assert.equal(new Set(pids).size, 2);
  },
);

scenario(
  'a server that is killed in a call fails all that it was asked, and nothing else',
  { versions: [6], config: notRepeatable },
  async (world) => {
    const { model } = world;
    await world.offers('hand__work');
    model.script(
      calls(call('hand__work', { key: 'a' }), call('current_time'), call('hand__work', { key: 'b' })),
      says('A pity.'),
    );
    const stream = await world.post('work');
    await until(() => times(world, 'begin') === 2, 'both calls to run');
    process.kill(processOf(world), 'SIGKILL');
    await stream.toEnd();
    assert.ok(stream.done);
    assert.equal(stream.chunks.filter((chunk) => chunk.type === 'tool-output-error').length, 2);
    assert.equal(stream.chunks.filter((chunk) => chunk.type === 'tool-output-available').length, 1);
    assert.equal(times(world, 'begin'), 2, 'no call is made again');
  },
);

const withEnv = (/** @type {Place} */ place) =>
  byHand(place, { env: { LOG: '1', SECRET_OF_ITS_OWN: '${TOKEN_FOR_IT}' } });
const settings = { TOKEN_FOR_IT: 'abc', SOMETHING: 'top-secret', HOME: '/tmp', LANG: 'C' };
scenario(
  'a program sees its own environment and none of the keys',
  { versions: [7], config: withEnv, settings },
  async (world) => {
    await world.offers('hand__environment');
    world.model.script(calls(call('hand__environment')), says('Seen.'));
    const stream = await world.post('look around');
    const { output } = await stream.sees('tool-output-available');
    await stream.toEnd();
    const [{ text }] = /** @type {{ content: [{ text: string }] }} */ (output).content;
    const seen = /** @type {Record<string, string>} */ (JSON.parse(text));
    assert.deepEqual([seen.LOG, seen.SECRET_OF_ITS_OWN, seen.HOME, seen.LANG], ['1', 'abc', '/tmp', 'C']);
    const known = ['LANG', 'LOG', 'HOME', 'PATH', 'SECRET_OF_ITS_OWN', 'SHELL', 'TERM', 'TMPDIR', 'USER'];
    assert.deepEqual(
      Object.keys(seen).filter((name) => !known.includes(name)),
      [],
    );
    assert.ok(!text.includes(API_KEY) && !text.includes('top-secret'));
  },
);

const some = (/** @type {Place} */ place) => `
[mcp.absent]
command = "there-is-no-such-program"
[mcp.mute]
command = "false"
[mcp.nowhere]
url = "http://127.0.0.1:1/mcp"
headers = { authorization = "Bearer do-not-log-this" }
${byHand(place)}`;
scenario(
  'a server that cannot be reached keeps nobody from starting, and the log says why',
  { versions: [7], config: some },
  async (world) => {
    await world.offers('hand__look');
    world.model.script(calls(call('hand__look', { key: 'x' })), says('Seen.'));
    const page = await world.page();
    page.say('look');
    await page.settles();
    assert.equal(page.words, 'Seen.');
    for (const name of ['absent', 'mute', 'nowhere']) {
      const line = new RegExp(`(WARN|ERROR).*${name}`);
      await until(
        () => line.test(world.server.log),
        () => `a word about ${name}:\n${world.server.log}`,
      );
    }
    assert.match(world.server.log, /absent.*(no such|not found|cannot be started|No such file)/i);
    assert.doesNotMatch(world.server.log, /do-not-log-this/);
    const response = await world.request('GET', '/api/tools');
    const { servers } = /** @type {{ servers: { name: string, state: string, reason?: string }[] }} */ (
      await response.json()
    );
    assert.deepEqual(
      servers.map(({ name, state }) => [name, state]),
      [
        ['absent', 'down'],
        ['hand', 'connected'],
        ['mute', 'down'],
        ['nowhere', 'down'],
      ],
    );
    assert.match(servers[0]?.reason ?? '', /not installed, or not in PATH/);
    assert.match(servers[2]?.reason ?? '', /the program ended during the handshake \(exit status: 1\)/);
    const names = (await world.tools()).map(({ name }) => name);
    assert.deepEqual(
      names.filter((name) => /^(absent|mute|nowhere)__/.test(name)),
      [],
    );
  },
);

scenario('servers come and go while the server runs', { versions: [6], config: byHand }, async (world) => {
  const { model } = world;
  await world.offers('hand__look');
  await world.server.reconfigure(byHand(world) + everything('reference'));
  await world.offers('reference__echo');
  model.script(
    calls(call('reference__echo', { message: 'hello' })),
    calls(call('hand__look', { key: 'x' })),
    says('Both.'),
  );
  const page = await world.page();
  page.say('both');
  await page.settles();
  assert.deepEqual(
    page.calls.map(({ state }) => state),
    ['output-available', 'output-available'],
  );
  assert.equal(times(world, 'started'), 1, 'who stays is not started again');

  const said = await world.server.reconfigure(everything('reference'));
  assert.match(said, /mcp/);
  await until(
    async () => !(await world.tools()).some(({ name }) => name.startsWith('hand__')),
    'its tools to be gone',
  );
  await until(() => !isThere(processOf(world)), 'the program to end');
  model.script(calls(call('hand__look')), says('Gone.'));
  page.say('look');
  await page.settles();
  assert.ok(!model.request(4).tools.some((name) => name.startsWith('hand__')));
  assert.equal(page.calls.at(-1)?.state, 'output-error');
  assert.equal(page.words, 'Gone.');
});

scenario(
  'a server that is taken away fails its open calls',
  { versions: [7], config: byHand },
  async (world) => {
    await world.offers('hand__work');
    world.model.script(calls(call('hand__work', { key: 'a' })), says('A pity.'));
    const stream = await world.post('work');
    await until(() => journal(world).some(({ event }) => event === 'begin'), 'the call to run');
    await world.server.reconfigure('approval = "default"\n');
    await stream.toEnd();
    assert.ok(stream.done);
    assert.ok(stream.chunks.some((chunk) => chunk.type === 'tool-output-error'));
  },
);

const timed = (/** @type {Place} */ place) => `${byHand(place)}
[tools."hand__slow*"]
timeout = "1s"
[errors]
timeout = "go_on"
`;
scenario('a call that takes too long fails, and its server is told', { config: timed }, async (world) => {
  const { model } = world;
  await world.offers('hand__slow_look');
  model.script(calls(call('hand__slow_look')), calls(call('hand__look', { key: 'x' })), says('Too slow.'));
  const page = await world.page({ sends: 'outputs' });
  page.say('look slowly');
  await page.settles();
  assert.equal(page.calls[0]?.state, 'output-error');
  assert.match(page.calls[0]?.errorText ?? '', /time|long|second/i);
  assert.match(JSON.stringify(page.calls[1]?.output), /saw x/, 'the server is still there');
  assert.equal(page.words, 'Too slow.');
  const cancelled = await until(
    () => journal(world).find(({ event }) => event === 'cancelled'),
    'a cancellation',
  );
  assert.equal(cancelled.about, journal(world).find(({ event }) => event === 'slow')?.about);
});

scenario('stop cancels the call at its server', { config: byHand }, async (world) => {
  const { model } = world;
  await world.offers('hand__slow_look');
  model.script(calls(call('hand__slow_look')), says('Hello again.'));
  const page = await world.page({ sends: 'outputs' });
  page.say('look slowly');
  const slow = await until(() => journal(world).find(({ event }) => event === 'slow'), 'the call to run');
  await world.stop();
  const cancelled = await until(
    () => journal(world).find(({ event }) => event === 'cancelled'),
    'a cancellation',
  );
  assert.equal(cancelled.about, slow.about);
  await page.settles();
  assert.equal(page.calls[0]?.state, 'output-error');
  assert.equal(page.posts.length, 1);
  page.say('hello');
  await page.settles();
  assert.equal(page.words, 'Hello again.');
});

const repeatable = (/** @type {Place} */ place) => `${byHand(place)}
[tools."hand__die_once"]
repeatable = true
`;
scenario('a repeatable call whose server died is made again', { config: repeatable }, async (world) => {
  await world.offers('hand__die_once');
  world.model.script(calls(call('hand__die_once')), says('It lives.'));
  const page = await world.page({ sends: 'outputs' });
  page.say('die');
  await page.settles();
  assert.match(JSON.stringify(page.calls[0]?.output), /alive again/);
  assert.equal(page.words, 'It lives.');
  assert.equal(times(world, 'asked to die'), 2);
});

const tireless = (/** @type {Place} */ place) => `${byHand(place)}
[tools."hand__die"]
repeatable = true
`;
scenario(
  'a repeatable call is made again twice at most',
  { versions: [7], config: tireless },
  async (world) => {
    await world.offers('hand__die');
    world.model.script(calls(call('hand__die')), says('A pity.'));
    const stream = await (await world.post('die')).toEnd();
    assert.ok(stream.chunks.some((chunk) => chunk.type === 'tool-output-error'));
    assert.equal(times(world, 'asked to die'), 3);
  },
);

scenario(
  'a server that learns a tool is asked for its list again',
  {
    versions: [6],
    config: (place) => byHand(place, { tools: ['learn'] }),
  },
  async (world) => {
    const { model } = world;
    await world.offers('hand__learn');
    model.script(calls(call('hand__learn')), says('Learnt.'), says('Hello.'));
    const page = await world.page();
    page.say('learn');
    await page.settles();
    assert.ok(!model.request(1).tools.includes('hand__change'));
    assert.equal((await world.offers('hand__change')).policy, 'ask');
    page.say('hello');
    await page.settles();
    assert.ok(model.request(3).tools.includes('hand__change'));
  },
);

scenario(
  'programs end with the server',
  { versions: [7], config: byHand, settings: { FERMATA_DRAIN: '1s' } },
  async (world) => {
    await world.offers('hand__work');
    world.model.script(calls(call('hand__work', { key: 'a' })), says('It was cut off.'));
    const stream = await world.post('work');
    await until(() => times(world, 'begin') === 1, 'the call to run');
    const pid = processOf(world);
    await world.server.end();
    await until(() => !isThere(pid), 'the program to end');
    await stream.toEnd();
    assert.ok(stream.done);
    await world.server.start();
    await until(() => world.model.requests.length === 2, 'the run to go on, though nobody asks for the chat');
  },
);

scenario(
  'a repeatable call that the server was killed in is made again, and no other',
  {
    versions: [7],
    config: (place) => `${byHand(place)}[tools."hand__work"]\nrepeatable = true\n`,
  },
  async (world) => {
    world.expectErrors();
    await world.offers('hand__work');
    world.model.script(calls(call('hand__work', { key: 'a' }), call('hand__slow_look')), says('Worked.'));
    const before = await world.page();
    before.say('work');
    await until(() => times(world, 'begin') + times(world, 'slow') === 2, 'both calls to run');
    await world.server.kill();
    await world.server.start();
    await world.close(before);
    const page = await world.page();
    const resumed = page.resume();
    await until(() => times(world, 'begin') === 2, 'the call to be made again');
    letGo(world, 'a');
    await resumed;
    await page.settles();
    assert.deepEqual(
      page.calls.map(({ state }) => state),
      ['output-available', 'output-error'],
    );
    assert.equal(page.words, 'Worked.');
    assert.deepEqual([times(world, 'begin'), times(world, 'slow')], [2, 1]);
  },
);

scenario(
  'an approved call whose server is gone since a restart fails when its time is over, and the chat goes on',
  {
    versions: [7],
    config: byHand,
    settings: { FERMATA_TOOL_TIMEOUT: '1s' },
  },
  async (world) => {
    await world.offers('hand__change');
    world.model.script(calls(call('hand__change', { key: 'a' })), says('A pity.'));
    const before = await world.post('change');
    const { approvalId } = await before.sees('tool-approval-request');
    await world.server.kill();
    world.server.configure('');
    await world.server.start();
    await world.answer({ approvalId, approved: true });
    await until(
      async () => (await world.stored()).at(-1)?.parts.some(({ text }) => text === 'A pity.'),
      'the end of the message',
    );
    const part = (await world.stored()).at(-1)?.parts.find(({ toolCallId }) => toolCallId !== undefined);
    assert.equal(part?.state, 'output-error');
  },
);
