// A chat that outgrows its model: how full the window is, and the summary of what came before.

import { afterEach, expect, test } from 'vitest';
import { fermata, type ChatSummary, type Compaction, type FermataError } from '../src/index.js';
import { gate, says, until, World, type Tab } from './world';

const SUMMARY = { goal: 'Tea for two', facts: ['The kettle is broken.'], entities: { shop: 'Leaf & Co.' } };
/** The model that writes summaries has a name of its own, so that its requests are told from the chat's. */
const SUMMARY_MODEL = 'summary-model';

let world: World;
const leave: (() => void)[] = [];
afterEach(async () => {
  for (const end of leave.splice(0)) end();
  await world.end();
});

async function create(settings: Record<string, string>) {
  world = await World.create({ FERMATA_SUMMARY_MODEL: SUMMARY_MODEL, ...settings });
  let turn = 0;
  world.model.improvise = ({ model }) =>
    model === SUMMARY_MODEL ? says(JSON.stringify(SUMMARY)) : says(`Answer ${String(++turn)}.`);
}

/** Follows the summary of a tab's chat, as a component does that shows it. */
function follow(tab: Tab) {
  const seen: (ChatSummary | undefined)[] = [];
  leave.push(tab.chat.summary.subscribe(() => seen.push(tab.chat.summary.get())));
  return seen;
}

/** Has as many turns as are wanted. */
async function talk(tab: Tab, turns: number) {
  for (let turn = 1; turn <= turns; turn++) {
    tab.say(`Question ${String(turn)}`);
    await tab.reads(`Answer ${String(turn)}.`);
    await tab.rests();
  }
}

const refusal = async (refused: Promise<unknown>) => {
  const error = await refused.then(
    () => undefined,
    (reason: unknown) => reason as FermataError,
  );
  return error?.code;
};

test('a page learns how full the window of the model is', async () => {
  await create({ FERMATA_CONTEXT_WINDOW: '1000' });
  world.model.script((pen) => {
    pen.inputTokens = 640;
    pen.says('Hello.');
  });
  const tab = world.tab();
  expect(tab.chat.contextUsage.get()).toBeUndefined();
  tab.say('hello');
  await tab.reads('Hello.');
  await tab.rests();
  expect(tab.chat.contextUsage.get()).toEqual({ inputTokens: 640, window: 1000, compactAt: 800 });
  await world.agrees(tab);
});

test('a summary that is written after a run reaches a page that follows it', async () => {
  await create({ FERMATA_KEEP_RECENT: '1', FERMATA_SUMMARY_EVERY: '1' });
  const tab = world.tab();
  const seen = follow(tab);
  await talk(tab, 2);
  await until(() => seen.at(-1) !== undefined, 'the summary');
  const { summary, messages, upTo, reason, model } = seen.at(-1) ?? ({} as ChatSummary);
  expect(summary).toEqual({
    decisions: [],
    done: [],
    todo: [],
    openQuestions: [],
    toolsUsed: [],
    ...SUMMARY,
  });
  expect({ messages, upTo, reason, model }).toEqual({
    messages: 2,
    upTo: tab.chat.messages[1]?.id,
    reason: 'every',
    model: SUMMARY_MODEL,
  });
});

test('a page that follows no summary does not ask for one', async () => {
  await create({});
  const tab = world.tab();
  tab.open();
  await talk(tab, 2);
  await tab.chat.refresh();
  expect(tab.requests.filter((request) => request.includes('summary'))).toEqual([]);
});

test('a summary is written when somebody asks for it, and read by a page that opens later', async () => {
  await create({ FERMATA_KEEP_RECENT: '2' });
  const tab = world.tab();
  const seen = follow(tab);
  await talk(tab, 1);
  expect(await refusal(tab.chat.compact())).toBe('nothing_to_compact');
  await talk(tab, 2);
  expect(seen.filter((summary) => summary !== undefined)).toEqual([]);
  await tab.chat.compact('Keep the prices.');
  expect(seen.at(-1)?.reason).toBe('asked');
  expect(tab.chat.contextUsage.get()).toBeUndefined();
  const asked = world.model.requests.findLast(({ model }) => model === SUMMARY_MODEL);
  expect(JSON.stringify(asked?.messages)).toContain('Keep the prices.');

  const later = world.tab();
  later.open();
  const seenLater = follow(later);
  await until(() => seenLater.length > 0, 'the summary in the other tab');
  expect(seenLater).toEqual([seen.at(-1)]);
});

test('a summary is corrected, and other tabs show the correction', async () => {
  await create({ FERMATA_KEEP_RECENT: '2' });
  const tab = world.tab();
  await talk(tab, 2);
  tab.open();
  follow(tab);
  await tab.chat.compact();
  const other = world.tab();
  other.open();
  const seen = follow(other);
  await until(() => seen.length > 0, 'the summary in the other tab');
  await tab.chat.correctSummary({ goal: 'Coffee for two' });
  expect(tab.chat.summary.get()?.summary).toMatchObject({ goal: 'Coffee for two', facts: [] });
  await until(() => seen.at(-1)?.summary.goal === 'Coffee for two', 'the correction in the other tab');
  expect(await refusal(tab.chat.correctSummary({ goal: 7 } as unknown as { goal: string }))).toBe(
    'invalid_request',
  );
  expect(tab.chat.summary.get()?.summary.goal).toBe('Coffee for two');
});

test('a summary is read, corrected and asked for without a chat object', async () => {
  await create({ FERMATA_KEEP_RECENT: '2' });
  await talk(world.tab(), 2);
  const server = fermata({ api: `${world.server.url}/api/chat` });
  expect(await server.summary('chat-1')).toBeUndefined();
  expect(await refusal(server.correctSummary('chat-1', { goal: 'Tea' }))).toBe('not_found');
  expect((await server.compact('chat-1')).messages).toBe(2);
  expect((await server.correctSummary('chat-1', { goal: 'Tea' })).summary.goal).toBe('Tea');
  expect((await server.summary('chat-1'))?.summary.goal).toBe('Tea');
});

test('a run that has to summarize says so in its message, and the summary is loaded', async () => {
  await create({ FERMATA_CONTEXT_WINDOW: '1000' });
  const written = gate();
  world.model.script((pen) => {
    pen.inputTokens = 600;
    pen.says('First.');
  });
  const tab = world.tab();
  const seen = follow(tab);
  tab.say('a'.repeat(2400));
  await tab.reads('First.');
  await tab.rests();
  world.model.improvise = ({ model }) =>
    model === SUMMARY_MODEL
      ? async (pen) => {
          await written.opened;
          pen.says(JSON.stringify(SUMMARY));
        }
      : says('Second.');
  tab.say('b'.repeat(1600));
  const compaction = () =>
    tab.parts.find(({ type }) => type === 'data-compaction')?.data as Compaction | undefined;
  await until(() => compaction()?.state === 'running', 'the compaction to begin');
  expect(compaction()).toMatchObject({ messages: 2, reason: 'size' });
  written.open();
  await tab.reads('Second.');
  expect(compaction()?.state).toBe('done');
  await until(() => seen.at(-1)?.messages === 2, 'the summary');
  await world.agrees(tab);
});
