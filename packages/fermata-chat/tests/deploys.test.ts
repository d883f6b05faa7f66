// What a page shows while its server is replaced: nothing. Its answer is over when the record says so, and not before.

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Random } from '../../../e2e/harness/random.mjs';
import { CALL, knowsReset, lonePage, Page, passes, ReplacedServer, type Cut } from './deploys';

let server: ReplacedServer;
let page: Page;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date'] });
  begins();
});

/** A server and a page of a new chat. How long the page waits before it tries again is as random as in a browser, and each time the same. */
function begins() {
  const random = new Random('pauses');
  vi.spyOn(Math, 'random').mockImplementation(() => random.next());
  server = new ReplacedServer();
  page = new Page(server);
  setInterval(() => {
    server.keepsAlive();
  }, 10_000);
}

afterEach(() => {
  vi.clearAllTimers();
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** A page that reads three words of an answer. */
async function reads() {
  page.chat.open({ isNew: true });
  void page.chat.sendMessage({ text: 'tell' });
  await passes(50);
  server.says(3);
  await passes(50);
  expect(page.text).toBe('1:0 1:1 1:2 ');
}

/** The answer was one answer for the person, and for the page's program. */
async function isOneAnswer() {
  await passes(120_000, () => page.chat.status === 'ready' && page.chat.connection === 'closed');
  expect(page.text).toBe(server.text);
  expect(page.errors).toEqual([]);
  expect(page.statuses).not.toContain('error');
  expect(page.finished).toEqual([server.text]);
  // What a version cannot take back comes anew on a stream of its own, which begins where the one before ends.
  expect(page.longestAsOver).toBeLessThanOrEqual(knowsReset ? 0 : 2);
  expect(page.chat.connection).toBe('closed');
}

/** The status is `streaming` from the first word to the last. */
const wasNeverReady = () => {
  expect(page.statuses).toEqual(['ready', 'submitted', 'streaming', 'ready']);
};

for (const how of ['broken', 'let go'] as const satisfies Cut[]) {
  test(`a half answer whose connection is ${how} goes on, and the page is not told`, async () => {
    await reads();
    server.cut(how);
    await passes(5);
    expect(page.chat.status).toBe('streaming');
    await passes(2000, () => page.chat.connection === 'open');
    server.says(2);
    server.ends();
    await isOneAnswer();
    wasNeverReady();
    expect(page.connections).toEqual(['open', 'reconnecting', 'open', 'closed']);
  });

  test(`a call that waits while its connection is ${how} twice keeps its card, and its answer goes on`, async () => {
    await reads();
    server.asks();
    await passes(50);
    for (let n = 0; n < 2; n++) {
      server.cut(how);
      await passes(5000, () => page.chat.connection === 'open');
      expect(page.chat.status).toBe('streaming');
    }
    void page.chat.addToolOutput({ tool: 'ask', toolCallId: CALL, output: 'done' });
    await passes(50);
    server.goesOn();
    server.says(2);
    server.ends();
    await isOneAnswer();
    wasNeverReady();
    expect(server.answers).toBe(1);
  });

  test(`an answer that ends while its connection is ${how} is shown whole when it is over`, async () => {
    await reads();
    server.isRefusing = true;
    server.cut(how);
    server.says(2);
    server.ends();
    server.forgetsLog();
    await passes(5000);
    expect(page.chat.status).toBe('streaming');
    expect(page.finished).toEqual([]);
    server.isRefusing = false;
    await isOneAnswer();
    wasNeverReady();
    expect(page.connections).toEqual(['open', 'reconnecting', 'closed']);
  });

  test(`a call that waits without a stream after its connection was ${how} is at rest`, async () => {
    await reads();
    server.asks();
    await passes(50);
    server.isDetached = true;
    server.cut(how);
    await passes(5000);
    expect(page.chat.status).toBe('ready');
    expect(page.chat.connection).toBe('closed');
    expect(page.errors).toEqual([]);
  });
}

test('a reader that comes to one ending instance after another asks more and more seldom', async () => {
  await reads();
  server.letsGo = 6;
  server.cut('let go');
  const before = server.requests.length;
  await passes(60_000, () => server.letsGo === 0 && page.chat.connection === 'open');
  // The record and the stream, for each of them.
  expect(server.requests.length - before).toBeLessThan(20);
  server.says(2);
  server.ends();
  await isOneAnswer();
  if (knowsReset) wasNeverReady();
});

test('the pages of an instance that ends do not come back in one moment', async () => {
  const pages = Array.from({ length: 20 }, () => ({ server: new ReplacedServer() }));
  const at: number[] = [];
  for (const each of pages) {
    const { chat } = new Page(each.server);
    void chat.sendMessage({ text: 'tell' });
    await passes(50);
    each.server.says(1);
  }
  const asked = new Set<ReplacedServer>();
  for (const each of pages) each.server.cut('let go');
  for (let tick = 0; tick < 200; tick++) {
    await vi.advanceTimersByTimeAsync(5);
    for (const each of pages) {
      if (asked.has(each.server) || !each.server.requests.includes('GET /stream')) continue;
      asked.add(each.server);
      at.push(tick);
    }
  }
  expect(asked.size).toBe(20);
  expect(new Set(at).size).toBeGreaterThan(8);
  for (const each of pages) each.server.ends();
});

test('what a person says and decides while every post is refused for 80 seconds arrives', async () => {
  page.chat.open({ isNew: true });
  server.isRefusing = true;
  void page.chat.sendMessage({ text: 'tell' });
  await passes(80_000);
  expect(page.chat.status).toBe('submitted');
  server.isRefusing = false;
  await passes(10_000, () => page.chat.connection === 'open');
  server.says(3);
  server.asks();
  await passes(100);
  server.isRefusing = true;
  let isDelivered = false;
  void Promise.resolve(page.chat.addToolOutput({ tool: 'ask', toolCallId: CALL, output: 'done' })).then(
    () => (isDelivered = true),
  );
  await passes(80_000);
  server.isRefusing = false;
  await passes(10_000, () => isDelivered);
  expect(server.answers).toBe(1);
  server.goesOn();
  server.ends();
  await isOneAnswer();
});

for (const fate of ['lost', 'unclear', 'broken'] as const) {
  test(`a message whose first post is ${fate} is taken once, and the page is not told`, async () => {
    page.chat.open({ isNew: true });
    server.fates = [fate];
    void page.chat.sendMessage({ text: 'tell' });
    await passes(5000, () => page.chat.connection === 'open' && server.isOpen);
    server.says(3);
    server.ends();
    await isOneAnswer();
    wasNeverReady();
    expect(server.requests.filter((request) => request === 'POST ')).toHaveLength(fate === 'lost' ? 2 : 1);
  });
}

test('a message whose posts are all lost stays, with the reason', async () => {
  page.chat.open({ isNew: true });
  server.fates = Array.from({ length: 9 }, () => 'lost');
  void page.chat.sendMessage({ text: 'tell' });
  await passes(10_000, () => page.chat.status === 'error');
  expect(page.chat.error?.message).toBe('fetch failed');
  expect(page.chat.messages.map(({ role }) => role)).toEqual(['user']);
});

test('a step that is made again is taken back, at any time and more than once', async () => {
  await reads();
  server.takesBack();
  await passes(5000, () => page.chat.connection === 'open');
  server.says(2);
  server.cut('let go');
  await passes(5000, () => page.chat.connection === 'open' && page.text.startsWith('2:'));
  expect(page.text).toBe('2:0 2:1 ');
  await passes(30_000);
  server.takesBack();
  server.takesBack();
  await passes(5000, () => page.chat.connection === 'open');
  server.says(4);
  server.ends();
  await isOneAnswer();
  if (knowsReset) wasNeverReady();
});

for (const replays of [true, false]) {
  test(`words that were lost in a crash are replaced (${replays ? 'replayed' : 'let go'}), and the page is not told`, async () => {
    server.replays = replays;
    await reads();
    server.loses();
    server.says(1);
    await passes(10_000, () => page.chat.connection === 'open' && page.text.startsWith('2:'));
    server.says(1);
    server.ends();
    await isOneAnswer();
    if (knowsReset) wasNeverReady();
  });
}

test('a transport alone goes on after an instance has ended', async () => {
  const { chat, errors, text } = lonePage(server);
  void chat.sendMessage({ text: 'tell' });
  await passes(50);
  server.says(2);
  await passes(50);
  for (const how of ['let go', 'broken', 'let go'] as const) {
    server.cut(how);
    await passes(5000);
    expect(chat.status).toBe('streaming');
  }
  server.says(1);
  server.ends();
  await passes(1000);
  expect(errors).toEqual([]);
  expect(text()).toBe('1:0 1:1 1:2 ');
  expect(chat.statuses).toEqual(['ready', 'submitted', 'streaming', 'ready']);
});

/** Some seconds of deploys and crashes, as a seed has them. */
async function disturb(random: Random) {
  const moves = [
    'says',
    'says',
    'broken',
    'let go',
    'refuses',
    'serves',
    'lets go',
    'takes back',
    'loses',
    'passes',
  ];
  for (let n = random.below(12) + 4; n > 0; n--) {
    switch (random.pick(moves)) {
      case 'says':
        server.says(random.below(4) + 1);
        break;
      case 'broken':
        server.cut('broken');
        break;
      case 'let go':
        server.cut('let go');
        break;
      case 'refuses':
        server.isRefusing = true;
        break;
      case 'serves':
        server.isRefusing = false;
        break;
      case 'lets go':
        server.letsGo += random.below(3);
        break;
      case 'takes back':
        server.takesBack();
        break;
      case 'loses':
        server.loses();
        break;
      default:
        await passes(random.below(8000));
    }
    if (random.chance(0.6)) await passes(random.below(1500));
  }
}

test('in any order of cuts, refusals and words that are taken back, an answer is one answer', async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const random = new Random('deploys', seed);
    vi.clearAllTimers();
    begins();
    server.replays = random.chance(0.5);
    await reads();
    await disturb(random);
    server.says(2);
    const cutAtTheEnd = random.pick(['broken', 'let go', undefined] as const);
    if (cutAtTheEnd !== undefined) server.cut(cutAtTheEnd);
    server.ends();
    const endedAt = page.statuses.length;
    expect(page.statuses.slice(1), `seed ${seed}`).not.toContain(knowsReset ? 'ready' : 'error');
    if (random.chance(0.5)) server.forgetsLog();
    server.isRefusing = false;
    await isOneAnswer();
    if (knowsReset) expect(page.statuses.slice(endedAt), `seed ${seed}`).toEqual(['ready']);
  }
}, 120_000);
