// Tools that the page runs: once for a call, whatever is replayed, reloaded or opened beside it.

import { afterEach, expect, test } from 'vitest';
import type { BrowserTool } from '../src/index.js';
import { ToolRunner } from '../src/tools.js';
import { calls, gate, says, until, World } from './world';

let world: World;
afterEach(() => world.end());

const answer = 'POST /api/chat/tool-result';

/** A tool that counts how often it runs, and what with. */
function counting(more: Partial<BrowserTool> = {}) {
  const inputs: unknown[] = [];
  const tool: BrowserTool = {
    inputSchema: { type: 'object' },
    execute: (input, call) => {
      inputs.push(input);
      return more.execute?.(input, call) ?? { ran: inputs.length };
    },
    ...(more.repeatable !== undefined && { repeatable: more.repeatable }),
  };
  return { inputs, tool };
}

test('a tool runs by itself, and its output goes on in the stream', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'look', input: { at: 'the sea' } }), says('I see.'));
  const { inputs, tool } = counting();
  const tab = world.tab({ tools: { look: tool } });
  tab.say('look');
  await tab.reads('I see.');
  await world.agrees(tab);
  expect(inputs).toEqual([{ at: 'the sea' }]);
  expect(tab.requests).toEqual(['POST /api/chat', answer]);
});

test('what a tool throws is the error of its call, and nothing is null', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'fail', input: {} }, { name: 'mute', input: {} }), says('I see.'));
  const fail = counting({ execute: () => Promise.reject(new Error('no permission')) });
  const mute: BrowserTool = { inputSchema: { type: 'object' }, execute: () => undefined };
  const tab = world.tab({ tools: { fail: fail.tool, mute } });
  tab.say('look');
  await tab.reads('I see.');
  expect((await tab.shows('fail', 'output-error')).errorText).toBe('no permission');
  expect((await tab.shows('mute', 'output-available')).output).toBe(null);
  await world.agrees(tab);
});

test('several run side by side', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'slow', input: {} }, { name: 'quick', input: {} }), says('Both.'));
  const { opened, open } = gate();
  const slow = counting({ execute: () => opened.then(() => 'slow') });
  const quick = counting();
  const tab = world.tab({ tools: { slow: slow.tool, quick: quick.tool } });
  tab.say('look');
  await tab.shows('quick', 'output-available');
  open();
  await tab.reads('Both.');
  await world.agrees(tab);
});

test('a replay in the same page runs nothing again', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'look', input: {} }, { name: 'ask', input: {} }), says('Both.'));
  const { inputs, tool } = counting();
  const tab = world.tab({ tools: { look: tool, ask: { inputSchema: { type: 'object' } } } });
  tab.say('look');
  await tab.shows('look', 'output-available');
  tab.cut();
  await until(() => tab.count('GET /api/chat/stream') > 0, 'the stream to be taken up');
  const { toolCallId } = await tab.shows('ask', 'input-available');
  await tab.chat.addToolOutput({ tool: 'ask', toolCallId, output: 1 });
  await tab.reads('Both.');
  await world.agrees(tab);
  expect(inputs).toHaveLength(1);
});

test('after a reload, what was answered does not run again', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'look', input: {} }, { name: 'ask', input: {} }), says('Both.'));
  const { inputs, tool } = counting();
  const tools = { look: tool, ask: { inputSchema: { type: 'object' } } };
  const before = world.tab({ tools });
  before.say('look');
  await before.shows('look', 'output-available');
  before.close();
  world.browser.closePages();
  const tab = world.tab({ tools });
  tab.open();
  const { toolCallId } = await tab.shows('ask', 'input-available');
  await tab.shows('look', 'output-available');
  await tab.chat.addToolOutput({ tool: 'ask', toolCallId, output: 1 });
  await tab.reads('Both.');
  await world.agrees(tab);
  expect(inputs).toHaveLength(1);
});

test('a repeatable tool whose page was reloaded runs again', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'look', input: {} }), says('I see.'));
  let isReloaded = false;
  const { inputs, tool } = counting({
    repeatable: true,
    execute: () => (isReloaded ? 'the sea' : new Promise(() => undefined)),
  });
  const before = world.tab({ tools: { look: tool } });
  before.say('look');
  await until(() => inputs.length === 1, 'the tool to run');
  before.close();
  world.browser.closePages();
  isReloaded = true;
  const tab = world.tab({ tools: { look: tool } });
  tab.open();
  await tab.reads('I see.');
  await world.agrees(tab);
  expect(inputs).toHaveLength(2);
});

test('a tool that must not be repeated fails after a reload, and says why', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'pay', input: {} }), says('Who knows.'));
  const { inputs, tool } = counting({ execute: () => new Promise(() => undefined) });
  const before = world.tab({ tools: { pay: tool } });
  before.say('pay');
  await until(() => inputs.length === 1, 'the tool to run');
  before.close();
  world.browser.closePages();
  const tab = world.tab({ tools: { pay: tool } });
  tab.open();
  await tab.reads('Who knows.');
  expect((await tab.shows('pay', 'output-error')).errorText).toContain('not known');
  await world.agrees(tab);
  expect(inputs).toHaveLength(1);
});

test('what a tool gave while nobody could be told is told after a reload', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'pay', input: {} }), says('Paid.'));
  const { opened, open } = gate();
  const { inputs, tool } = counting({ execute: () => opened.then(() => 'paid') });
  const before = world.tab({ tools: { pay: tool } });
  before.say('pay');
  await until(() => inputs.length === 1, 'the tool to run');
  before.isOffline = true;
  open();
  await until(() => before.count(answer) > 0, 'an attempt to answer');
  before.close();
  world.browser.closePages();
  const tab = world.tab({ tools: { pay: tool } });
  tab.open();
  await tab.reads('Paid.');
  await world.agrees(tab);
  expect(inputs).toHaveLength(1);
  expect(world.browser.memory.keys).toEqual(['fermata settled']);
});

test('after the stream was let go and the page reloaded, a tool that waits runs', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'look', input: {} }), says('I see.'));
  const before = world.tab({ tools: { look: { inputSchema: { type: 'object' } } }, hold: '0s' });
  before.say('look');
  await before.shows('look', 'input-available');
  await before.rests();
  before.close();
  world.browser.closePages();
  const { inputs, tool } = counting();
  const tab = world.tab({ tools: { look: tool }, hold: '0s' });
  tab.open();
  await tab.reads('I see.');
  await world.agrees(tab);
  expect(inputs).toHaveLength(1);
});

test('of two tabs one runs it', async () => {
  world = await World.create();
  const { opened, open } = gate();
  world.model.script(async (pen) => {
    pen.says('Let me see.');
    await opened;
    pen.calls({ name: 'look', input: {} });
  }, says('I see.'));
  const { inputs, tool } = counting();
  const first = world.tab({ tools: { look: tool } });
  first.say('look');
  await first.reads('Let me see.');
  const second = world.tab({ tools: { look: tool } });
  second.open();
  await second.reads('Let me see.');
  open();
  await first.reads('I see.');
  await second.reads('I see.');
  await world.agrees(first);
  await world.agrees(second);
  expect(inputs).toHaveLength(1);
});

test('a tab that hears of a call only after another one has run it asks the server first', async () => {
  world = await World.create();
  const { inputs, tool } = counting();
  let isPending = true;
  const tab = () => {
    const runner = new ToolRunner('/api/chat', 'chat');
    const call = { toolCallId: 'call', tool, input: {}, isReplay: false };
    const deliver = () => {
      isPending = false;
      runner.forget('call');
      return Promise.resolve();
    };
    const report = () => undefined;
    return runner.run({ ...call, isPending: () => Promise.resolve(isPending), deliver, report });
  };
  await tab();
  await tab();
  expect(inputs).toHaveLength(1);
  // The database may have lost the answer.
  isPending = true;
  await tab();
  expect(inputs).toHaveLength(2);
});

test('when the tab that runs a repeatable tool is closed, the other one runs it', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'look', input: {} }), says('I see.'));
  const stuck = counting({ repeatable: true, execute: () => new Promise(() => undefined) });
  const first = world.tab({ tools: { look: stuck.tool } });
  first.say('look');
  await until(() => stuck.inputs.length === 1, 'the tool to run');
  const { inputs, tool } = counting({ repeatable: true });
  const second = world.tab({ tools: { look: tool } });
  second.open();
  await second.shows('look', 'input-available');
  expect(inputs).toHaveLength(0);
  first.close();
  world.browser.closePages();
  await second.reads('I see.');
  await world.agrees(second);
  expect(inputs).toHaveLength(1);
});

test('a run that is stopped tells the tool so', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'look', input: {} }));
  let isTold = false;
  const { inputs, tool } = counting({
    execute: (_, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          isTold = true;
          reject(new Error('stopped'));
        });
      }),
  });
  const tab = world.tab({ tools: { look: tool } });
  tab.say('look');
  await until(() => inputs.length === 1, 'the tool to run');
  await tab.chat.stop();
  expect(isTold).toBe(true);
  await tab.shows('look', 'output-error');
  await world.agrees(tab);
});

test('a message that is refused leaves a tool alone that runs', async () => {
  world = await World.create({ FERMATA_MAX_BODY: '20KB' });
  world.model.script(calls({ name: 'pay', input: {} }), says('Paid.'));
  const { opened, open } = gate();
  const { inputs, tool } = counting({ execute: () => opened.then(() => 'paid') });
  const tab = world.tab({ tools: { pay: tool } });
  tab.say('pay');
  await until(() => inputs.length === 1, 'the tool to run');
  tab.say('x'.repeat(30_000));
  await until(() => tab.errors.length === 1, 'the page to be told');
  open();
  await until(async () => !(await world.view()).open, 'the run to end');
  expect(inputs).toHaveLength(1);
  expect(JSON.stringify((await world.view()).messages)).toContain('Paid.');
});

test('an output that is larger than the server takes is an error of its call', async () => {
  world = await World.create({ FERMATA_MAX_OUTPUT: '10KB' });
  world.model.script(calls({ name: 'look', input: {} }), says('Too much to see.'));
  const { inputs, tool } = counting({ execute: () => 'x'.repeat(20_000) });
  const tab = world.tab({ tools: { look: tool } });
  tab.say('look');
  await tab.reads('Too much to see.');
  expect((await tab.shows('look', 'output-error')).errorText).toMatch(/bytes|KB|large/i);
  await world.agrees(tab);
  expect(inputs).toHaveLength(1);
  expect(world.browser.memory.keys).toEqual(['fermata settled']);
});

test('where the browser refuses locks, a tool runs all the same', async () => {
  world = await World.create();
  world.browser.refuseLocks();
  world.model.script(calls({ name: 'look', input: {} }), says('I see.'));
  const { inputs, tool } = counting();
  const tab = world.tab({ tools: { look: tool } });
  tab.say('look');
  await tab.reads('I see.');
  await world.agrees(tab);
  expect(inputs).toHaveLength(1);
});

const ring: Record<string, unknown> = {};
ring['self'] = ring;
const throwing = (thrown: unknown) => () => {
  throw thrown;
};
const UNDELIVERABLE: [string, () => unknown][] = [
  ['a value that contains itself', () => ring],
  ['a BigInt', () => ({ rows: 10n })],
  ['a value whose toJSON throws', () => ({ toJSON: throwing(new Error('no')) })],
  [
    'a value whose getter throws',
    () => Object.defineProperty({}, 'at', { enumerable: true, get: throwing(1) }),
  ],
  ['a function', () => () => 1],
  ['a symbol', () => Symbol('s')],
  ['a very long error', throwing(new Error('e'.repeat(3_000_000)))],
  ['an output that the server refuses', () => 'x'.repeat(30_000)],
];

test.each(UNDELIVERABLE)(
  '%s becomes a short error of its call, and the page learns of it',
  async (_, execute) => {
    world = await World.create({ FERMATA_MAX_BODY: '20KB' });
    world.model.script(calls({ name: 'look', input: {} }), says('I see.'));
    const tab = world.tab({ tools: { look: { inputSchema: { type: 'object' }, execute } } });
    tab.say('look');
    await tab.reads('I see.');
    const { errorText = '' } = await tab.shows('look', 'output-error');
    expect(errorText).not.toBe('');
    expect(errorText.length).toBeLessThanOrEqual(2000);
    expect(tab.errors).toHaveLength(1);
    expect(tab.chat.error).toBe(undefined);
    await world.agrees(tab);
  },
);

test('an outcome that the page gives itself and that cannot be sent becomes an error as well', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'look', input: {} }), says('I see.'));
  const tab = world.tab({ tools: { look: { inputSchema: { type: 'object' } } } });
  tab.say('look');
  const { toolCallId } = await tab.shows('look', 'input-available');
  await tab.chat.addToolOutput({ tool: 'look', toolCallId, output: ring });
  await tab.reads('I see.');
  await tab.shows('look', 'output-error');
  expect(tab.errors).toHaveLength(1);
});

test.each([
  ['nothing', undefined, 'undefined'],
  ['a value that cannot become a text', Object.create(null), 'The tool has failed.'],
  ['an error without words', new RangeError(), 'RangeError'],
])('a tool may throw %s', async (_, thrown: unknown, errorText) => {
  world = await World.create();
  world.model.script(calls({ name: 'look', input: {} }), says('I see.'));
  const tab = world.tab({ tools: { look: { inputSchema: { type: 'object' }, execute: throwing(thrown) } } });
  tab.say('look');
  await tab.reads('I see.');
  expect((await tab.shows('look', 'output-error')).errorText).toBe(errorText);
});

test('an output is shown as the server has it', async () => {
  world = await World.create();
  world.model.script(calls({ name: 'look', input: {} }), says('I see.'));
  const output = { at: new Date(0), act: () => 1, none: undefined };
  const tab = world.tab({ tools: { look: { inputSchema: { type: 'object' }, execute: () => output } } });
  tab.say('look');
  await tab.reads('I see.');
  expect((await tab.shows('look', 'output-available')).output).toEqual({ at: '1970-01-01T00:00:00.000Z' });
  await world.agrees(tab);
  expect(tab.errors).toEqual([]);
});
