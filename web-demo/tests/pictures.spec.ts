// A picture of each state, small enough for the README. FERMATA_PICTURES=1 writes them to docs/pictures;
// otherwise they are only made.
//
// They are the same every time, but for a few pixels at the edges of rounded corners: times and durations,
// which no two runs share, are written over with one of their kind.

import { mkdirSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { calls, expect, gate, says, test, type ChatPage } from './world';

const FOLDER =
  process.env['FERMATA_PICTURES'] === '1' ? resolve(import.meta.dirname, '../../docs/pictures') : undefined;
const LARGEST = 120_000;

test.use({ hand: true, viewport: { width: 960, height: 640 } });

const NOTE = {
  name: 'write_note',
  input: { title: 'Milk', body: 'Buy two litres of oat milk on the way home.' },
};

/** The list of chats, which asks the server now and then, shows this chat as it is. */
async function isListed(chat: ChatPage, state: 'Waiting' | 'Running' | 'done', pending = 0) {
  const entry = chat.chats.getByRole('listitem');
  await expect(entry).toHaveCount(1);
  if (state === 'done') await expect(entry).not.toContainText(/Waiting|Running/);
  else await expect(entry).toContainText(state);
  if (pending > 0) await expect(entry).toContainText(`${pending} wait`);
  else await expect(entry).not.toContainText(/waits? for you/);
}

async function picture(chat: ChatPage, name: string) {
  const { page } = chat;
  await page.mouse.move(0, 0);
  await page.evaluate(async () => {
    await document.fonts.ready;
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      node.nodeValue = (node.nodeValue ?? '')
        .replace(/\b\d+(\.\d+)? m?s\b/g, '0.4 s')
        .replace(/\d+(\.\d+)? (毫秒|秒)/g, '0.4 秒')
        .replace(/\b\d{1,2}:\d\d\b/g, '10:30');
    }
  });
  const png = await page.screenshot({ animations: 'disabled', caret: 'hide', scale: 'css' });
  expect(png.length).toBeLessThan(LARGEST);
  const folder = FOLDER ?? test.info().outputDir;
  mkdirSync(folder, { recursive: true });
  writeFileSync(resolve(folder, `${name}.png`), png);
}

test('the greeting', async ({ chat }) => {
  await expect(chat.page.getByRole('textbox').first()).toBeVisible();
  await picture(chat, 'greeting');
});

test('an answer that streams', async ({ world, chat }) => {
  const end = gate();
  world.model.script(async (pen) => {
    pen.reasons('They want to know about tea.');
    pen.says(
      '## Three teas\n\n| Tea | Water | Time |\n| --- | --- | --- |\n| Sencha | 70 °C | 1 min |\n| ' +
        'Oolong | 90 °C | 3 min |\n| Assam | 100 °C | 4 min |\n\n',
    );
    pen.says('Sencha is the one to be **gentle** with: boiling water makes it');
    await end.opened;
  });
  await chat.say('How do I make tea?');
  await chat.hears('boiling water makes it');
  await isListed(chat, 'Running');
  await picture(chat, 'streaming');
  end.open();
  await chat.isAtRest();
});

test('a question whether a call may run, and its form', async ({ world, chat }) => {
  world.model.script(async (pen) => {
    pen.says('I will write that down, if you allow it.');
    await Promise.resolve();
    pen.calls(NOTE);
  });
  await chat.say('Remind me to buy milk.');
  const card = chat.card('write_note');
  await chat.isInState(card, 'Waiting for you');
  await isListed(chat, 'Waiting', 1);
  await picture(chat, 'approval');
  await chat.press(card, 'Edit');
  await expect(card.getByRole('textbox', { name: /^title/i })).toBeFocused();
  await picture(chat, 'edit');
});

test('the gate', async ({ world, chat }) => {
  world.model.script(
    calls(
      { ...NOTE, id: 'one' },
      { name: 'hand__change', input: { key: 'the calendar' }, id: 'two' },
      { name: 'search_notes', input: { query: 'milk' }, id: 'three' },
    ),
  );
  await chat.say('Write it down, put it into the calendar, and look for older notes.');
  await chat.press(chat.card('write_note'), 'Approve');
  await expect(chat.gate).toContainText('1 decision left');
  await isListed(chat, 'Waiting', 1);
  await picture(chat, 'gate');
});

test('a chart', async ({ world, chat }) => {
  const series = [
    { name: 'tea', values: [3, 5, 2, 6, 4] },
    { name: 'coffee', values: [2, 1, 3, 1, 2] },
  ];
  world.model.script(
    calls({
      name: 'show_chart',
      input: { title: 'Cups a day', kind: 'bar', labels: ['Mon', 'Tue', 'Wed', 'Thu', 'Fri'], series },
    }),
    says('Thursday was the day for tea.'),
  );
  await chat.say('Draw my week.');
  await chat.hears('Thursday was');
  await chat.isAtRest();
  await expect(chat.card('show_chart').getByRole('img', { name: /Cups a day/ })).toBeVisible();
  await isListed(chat, 'done');
  await picture(chat, 'chart');
});

test('a question of an MCP tool', async ({ world, chat }) => {
  world.model.script(calls({ name: 'hand__ask', input: { key: 'Ann' } }));
  await chat.say('Order the paint.');
  await expect(chat.question).toContainText('Which color, Ann?');
  await isListed(chat, 'Waiting', 1);
  await picture(chat, 'elicitation');
});

test.describe('in the dark', () => {
  test.use({ colorScheme: 'dark' });

  test('a call that waits', async ({ world, chat }) => {
    world.model.script(calls(NOTE));
    await chat.say('Remind me to buy milk.');
    await chat.isInState(chat.card('write_note'), 'Waiting for you');
    await isListed(chat, 'Waiting', 1);
    await picture(chat, 'dark');
  });
});

test('in Chinese', async ({ world, chat }) => {
  world.model.script((pen) => {
    pen.says('好的，需要您先批准。');
    pen.calls({ name: 'write_note', input: { title: '牛奶', body: '回家路上买两升燕麦奶。' } });
  });
  await chat.say('提醒我买牛奶。');
  await chat.isInState(chat.card('write_note'), 'Waiting for you');
  await isListed(chat, 'Waiting', 1);
  await chat.set('中文');
  await expect(chat.page.getByRole('button', { name: '批准', exact: true })).toBeVisible();
  await picture(chat, 'chinese');
});

test.describe('on a phone', () => {
  test.use({ viewport: { width: 390, height: 760 }, hasTouch: true, isMobile: true });

  test('a call that waits', async ({ world, chat }) => {
    world.model.script((pen) => {
      pen.says('I will write that down, if you allow it.');
      pen.calls(NOTE);
    });
    await chat.say('Remind me to buy milk.');
    await chat.isInState(chat.card('write_note'), 'Waiting for you');
    await expect(chat.page.getByRole('heading', { level: 1 })).toHaveText('Remind me to buy milk.');
    await picture(chat, 'phone');
  });
});

test.describe('with assistant-ui', () => {
  test.use({ path: '/assistant-ui' });

  test('the gate', async ({ world, chat }) => {
    world.model.script((pen) => {
      pen.says('Both at once, then.');
      pen.calls({ ...NOTE, id: 'one' }, { name: 'search_notes', input: { query: 'milk' }, id: 'two' });
    });
    await chat.say('Write it down, and look for older notes.');
    await expect(chat.gate).toContainText('1 decision left');
    await expect(chat.chats.getByText('waits for you')).toBeAttached();
    await picture(chat, 'assistant-ui');
  });
});
