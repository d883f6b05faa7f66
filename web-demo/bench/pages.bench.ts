// `npm run bench`: how soon the pages take input, and how smooth they stay while much is written. Numbers are
// printed beside what a page with nothing on it does on the same machine, and nothing fails by them.
// DELTAS_PER_SECOND, SECONDS and MESSAGES change the load.

import type { Page } from '@playwright/test';
import {
  expect,
  importHistory,
  PAGES,
  test,
  until,
  type ChatPage,
  type Pen,
  type World,
} from '../tests/world';

const RATE = Number(process.env['DELTAS_PER_SECOND'] ?? 200);
const SECONDS = Number(process.env['SECONDS'] ?? 5);
const LONG = Number(process.env['MESSAGES'] ?? 1000);
const LOADS = 5;

const say = (words: string) => {
  console.log(`      ${words}`);
};

const median = (numbers: number[]) =>
  numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)] ?? 0;

interface Frames {
  count: number;
  /** The longest time between two, in milliseconds. */
  longest: number;
}

/** Counts the frames of a page while something happens. */
async function countFrames(page: Page, happen: () => Promise<unknown>): Promise<Frames> {
  await page.evaluate(() => {
    const seen = { count: 0, longest: 0, last: performance.now(), isOver: false };
    const frame = (now: number) => {
      seen.count += 1;
      seen.longest = Math.max(seen.longest, now - seen.last);
      seen.last = now;
      if (!seen.isOver) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    Object.assign(window, { seen });
  });
  await happen();
  return page.evaluate(() => {
    const { seen } = window as unknown as { seen: Frames & { isOver: boolean } };
    seen.isOver = true;
    return { count: seen.count, longest: seen.longest };
  });
}

/** Writes at a steady rate. */
async function write(pen: Pen) {
  const begin = Date.now();
  for (let written = 0; written < RATE * SECONDS;) {
    const due = Math.min(RATE * SECONDS, Math.ceil(((Date.now() - begin) / 1000) * RATE));
    for (; written < due; written += 1)
      pen.says(written % 40 === 39 ? `word ${written}.\n\n` : `word ${written} `);
    await new Promise((resume) => setTimeout(resume, 5));
  }
  pen.says('the end');
}

/** What a person feels who writes while an answer is written. */
async function watchStream(world: World, chat: ChatPage): Promise<Frames & { key: number }> {
  world.model.script(write);
  await chat.say('a long one');
  await chat.hears('word 5');
  const keys: number[] = [];
  const frames = await countFrames(chat.page, async () => {
    for (const words of ['n', 'ne', 'nex', 'next']) {
      const pressed = performance.now();
      await chat.composer.press(words.slice(-1));
      await expect(chat.composer).toHaveValue(words);
      keys.push(performance.now() - pressed);
    }
    await chat.hears('the end');
  });
  await chat.composer.fill('');
  return { ...frames, key: median(keys) };
}

for (const { name, path } of PAGES) {
  test.describe(name, () => {
    test.use({ path });

    test('a cold load', async ({ world, browser }) => {
      const load = async (path: string, isReady: (page: Page) => Promise<unknown>) => {
        const context = await browser.newContext();
        await world.watch(context);
        const page = await context.newPage();
        const begin = performance.now();
        await page.goto(world.server.url + path);
        await isReady(page);
        const took = performance.now() - begin;
        await context.close();
        return took;
      };
      const bare: number[] = [];
      const demo: number[] = [];
      for (let time = 0; time < LOADS; time += 1) {
        bare.push(await load('/curl', (page) => page.getByRole('heading').first().waitFor()));
        demo.push(
          await load(path, (page) =>
            page.getByRole('textbox', { name: 'Message', exact: true }).fill('hello'),
          ),
        );
      }
      say(
        `${name}, until its message field takes words: ${median(demo).toFixed(0)} ms; a page without ` +
          `scripts of the same server: ${median(bare).toFixed(0)} ms`,
      );
    });

    test('a fast answer', async ({ world, chat }) => {
      const idle = await countFrames(chat.page, () => chat.page.waitForTimeout(SECONDS * 1000));
      const show = (where: string, { count, longest, key }: Frames & { key: number }) => {
        const share = ((100 * count) / idle.count).toFixed(0);
        say(
          `${name}, ${RATE} deltas a second into ${where}: ${share} % of the frames of an idle page, ` +
            `the longest ${longest.toFixed(0)} ms (idle: ${idle.longest.toFixed(0)} ms); a key takes ` +
            `${key.toFixed(0)} ms`,
        );
      };
      show('an empty chat', await watchStream(world, chat));
      const history = Array.from({ length: LONG }, (_, place) => ({
        id: `m${place}`,
        role: place % 2 === 0 ? 'user' : 'assistant',
        parts: [
          {
            type: 'text',
            text: place % 2 === 0 ? `question ${place}` : `**answer** ${place}\n\n- one\n- two\n`,
          },
        ],
      }));
      world.model.script((pen) => {
        pen.says('imported');
      });
      expect(
        await importHistory(world, 'long', [
          ...history,
          { id: 'last', role: 'user', parts: [{ type: 'text', text: 'so?' }] },
        ]),
      ).toBe(200);
      await until(() => world.model.requests.length === 2, 'the import');
      const long = await world.tab('long');
      await long.hears('imported');
      show(`a chat of ${LONG} messages`, await watchStream(world, long));
    });
  });
}
