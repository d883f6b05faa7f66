// What is remembered: said in one chat, used in another, undone, and looked after on the page of memories.

import { readFileSync } from 'node:fs';
import type { Locator, Page } from '@playwright/test';
import { expect, FAILED_REQUEST, PAGES, says, seriousViolations, test, type World } from './world';

test.use({ demoModel: true });

const SAID = 'remember that I prefer Celsius';
const SAVED = 'I prefer Celsius';

interface Memory {
  id: string;
  text: string;
}

/** What the server has. */
async function memoriesOf(world: World): Promise<Memory[]> {
  const response = await fetch(`${world.server.url}/api/memories`);
  return ((await response.json()) as { memories: Memory[] }).memories;
}

async function save(world: World, ...memories: object[]) {
  for (const memory of memories) {
    const body = JSON.stringify(memory);
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(`${world.server.url}/api/memories`, { method: 'POST', headers, body });
    expect(response.status).toBe(201);
  }
}

const settings = (page: Page) => page.getByRole('button', { name: 'Settings', exact: true });

const entry = (page: Page) => page.getByRole('dialog').getByRole('button', { name: 'Manage memories' });

/** The page of memories, opened from the settings. */
async function list(page: Page): Promise<Locator> {
  await settings(page).click();
  await entry(page).click();
  return page.getByRole('dialog', { name: 'Memories', exact: true });
}

const rows = (dialog: Locator) => dialog.getByRole('list', { name: 'Memories' }).getByRole('listitem');
const press = (dialog: Locator, name: string) => dialog.getByRole('button', { name, exact: true }).click();

for (const { name, path } of PAGES) {
  test.describe(`on ${name}`, () => {
    test.use({ path });

    test('what was said in one chat is used in another, and undone', async ({ world, chat }) => {
      await chat.say(SAID);
      await chat.isInState(chat.card('remember'), 'Done');
      const changes = chat.log.getByRole('list', { name: 'What was done with memories' });
      await expect(changes).toHaveText(`Saved: ${SAVED} · Undo`);
      await expect(chat.card('remember')).not.toContainText('Celsius');
      await chat.isAtRest();

      await chat.page.getByRole('button', { name: 'New chat' }).click();
      await chat.say('Do I prefer Celsius or Fahrenheit?');
      await chat.answers.getByRole('button', { name: '1 memory used' }).click();
      const used = chat.log.getByRole('list', { name: 'Memories used for this answer' });
      await expect(used).toHaveText(`${SAVED}Preference`);
      await chat.isAtRest();
      await chat.answers.getByRole('button', { name: 'Manage memories' }).click();
      const dialog = chat.page.getByRole('dialog', { name: 'Memories', exact: true });
      await dialog.getByRole('link', { name: `from “${SAID}”` }).click();
      await expect(dialog).toBeHidden();

      await expect(changes).toHaveText(`Saved: ${SAVED} · Undo`);
      await changes.getByRole('button').click();
      await expect(changes).toHaveText(`Saved: ${SAVED} · Undone`);
      expect(await memoriesOf(world)).toEqual([]);
      await chat.reload();
      await expect(changes).toHaveText(`Saved: ${SAVED} · Undone`);
    });

    test('what is forgotten by a call comes back', async ({ world, chat }) => {
      await save(world, { text: 'likes tea', kind: 'preference' });
      const [tea] = await memoriesOf(world);
      await chat.say(`forget ${tea?.id ?? ''}`);
      const changes = chat.log.getByRole('list', { name: 'What was done with memories' });
      await expect(changes).toHaveText('Forgotten: likes tea · Undo');
      await changes.getByRole('button').click();
      await expect(changes).toHaveText('Forgotten: likes tea · Undone');
      expect(await memoriesOf(world)).toEqual([tea]);
    });

    test('a call that looks for memories is a card like any other', async ({ world, chat }) => {
      await save(world, { text: 'likes tea', kind: 'preference' });
      await chat.say('what do you remember about me?');
      await chat.isInState(chat.card('recall'), 'Done');
      await chat.hears('likes tea');
    });

    test('a page on which memory is off neither remembers nor is told', async ({ world, chat }) => {
      await save(world, { text: 'prefers Celsius', kind: 'preference' });
      const dialog = await list(chat.page);
      await dialog.getByRole('switch', { name: 'Use memory on this page' }).click();
      await press(dialog, 'Close the memories');
      await chat.say('remember that I like tea');
      // The demo model has no other tool for it then.
      await chat.press(chat.card('write_note'), 'Deny');
      await chat.press(chat.card('write_note'), 'Deny');
      await chat.isAtRest();
      await chat.reload();
      await expect((await chat.settings()).getByText('off', { exact: true })).toBeVisible();
      await chat.page.keyboard.press('Escape');
      await chat.say('Do I prefer Celsius or Fahrenheit?');
      await expect(chat.answers).toHaveCount(2);
      await chat.isAtRest();
      await expect(chat.card('remember')).toHaveCount(0);
      await expect(chat.log.getByText(/memory used/)).toHaveCount(0);
      expect((await memoriesOf(world)).map(({ text }) => text)).toEqual(['prefers Celsius']);

      await (await list(chat.page)).getByRole('switch').click();
      await chat.page.keyboard.press('Escape');
      await chat.say('Do I prefer Celsius or Fahrenheit?');
      await expect(chat.answers.last().getByRole('button', { name: '1 memory used' })).toBeVisible();
    });
  });
}

test('what was undone elsewhere is not undone again, and the page says why', async ({ world, chat }) => {
  world.mayLog(FAILED_REQUEST);
  await chat.say(SAID);
  const undo = chat.log.getByRole('button', { name: /^Undo / });
  await undo.waitFor();
  const [memory] = await memoriesOf(world);
  await fetch(`${world.server.url}/api/memories/${memory?.id ?? ''}/undo`, { method: 'POST' });
  await undo.click();
  await expect(chat.log.getByRole('alert')).toHaveText(/undone|no memory/i);
  await expect(undo).toHaveText('Undo');
});

test('memories are added, edited, pinned, deleted and brought back', async ({ world, chat }) => {
  const dialog = await list(chat.page);
  await expect(dialog).toContainText('Nothing is remembered yet.');
  await press(dialog, 'Add');
  await chat.page.keyboard.type('lives in Bern');
  await dialog.getByRole('textbox', { name: 'Slot (optional)' }).fill('place');
  await press(dialog, 'Save');
  await expect(rows(dialog)).toHaveText([/^lives in BernFactslot place/]);

  await press(dialog, 'Edit “lives in Bern”');
  await dialog.getByRole('textbox', { name: 'Text' }).fill('lives in Basel');
  await dialog.getByRole('combobox', { name: 'Kind', exact: true }).selectOption('Person or thing');
  await dialog.getByRole('textbox', { name: 'Slot (optional)' }).fill('');
  await press(dialog, 'Save');
  await expect(rows(dialog)).toHaveText([/^lives in BaselPerson or thing\d/]);
  await press(dialog, 'Pin “lives in Basel”');
  await expect(rows(dialog)).toHaveText([/^lives in BaselPerson or thingPinned/]);

  await press(dialog, 'Delete “lives in Basel”');
  const undo = dialog.getByRole('button', { name: 'Undo “Deleted lives in Basel”' });
  await expect(undo).toBeFocused();
  expect(await memoriesOf(world)).toEqual([]);
  await chat.page.keyboard.press('Enter');
  await expect(dialog.getByRole('button', { name: 'Delete “lives in Basel”' })).toBeFocused();
  expect(await memoriesOf(world)).toMatchObject([{ text: 'lives in Basel', kind: 'entity', pinned: true }]);
});

test('memories are found, and the older ones are shown when they are asked for', async ({ world, chat }) => {
  await save(world, { text: 'likes tea', kind: 'preference' }, { text: 'has two cats', kind: 'entity' });
  await save(world, ...Array.from({ length: 20 }, (_, n) => ({ text: `owns book number ${n}` })));
  const dialog = await list(chat.page);
  await expect(rows(dialog)).toHaveCount(20);
  await press(dialog, 'Show older memories');
  await expect(rows(dialog)).toHaveCount(22);
  await dialog.getByRole('searchbox', { name: 'Search memories' }).fill('cats');
  await expect(rows(dialog)).toHaveText([/^has two cats/]);
  await dialog.getByRole('searchbox').fill('');
  await dialog.getByRole('combobox', { name: 'Kind of memories' }).selectOption('Preference');
  await expect(rows(dialog)).toHaveText([/^likes tea/]);
  await dialog.getByRole('searchbox').fill('cats');
  await expect(dialog).toContainText('No memory has to do with this.');
});

test('all memories are exported, and all are deleted after a question', async ({ world, chat }) => {
  const texts = Array.from({ length: 103 }, (_, n) => `owns book number ${n}`);
  await save(world, ...texts.map((text) => ({ text })));
  const dialog = await list(chat.page);
  const downloading = chat.page.waitForEvent('download');
  await press(dialog, 'Export');
  const download = await downloading;
  expect(download.suggestedFilename()).toBe('fermata-memories.json');
  const { memories } = JSON.parse(readFileSync(await download.path(), 'utf8')) as { memories: Memory[] };
  expect(memories.map(({ text }) => text)).toEqual(texts.toReversed());

  await press(dialog, 'Delete all');
  const question = chat.page.getByRole('dialog', { name: 'Delete all memories?' });
  await expect(question).toContainText('All 103 memories are deleted.');
  await chat.page.keyboard.press('Escape');
  await expect(question).toBeHidden();
  await expect(dialog.getByRole('button', { name: 'Delete all' })).toBeFocused();
  await press(dialog, 'Delete all');
  await press(question, 'Delete all');
  await expect(dialog).toContainText('103 memories were deleted.');
  await expect(dialog).toContainText('Nothing is remembered yet.');
  expect(await memoriesOf(world)).toEqual([]);
});

test('by keyboard the list is opened and closed, and the focus comes back', async ({ world, chat }) => {
  await save(world, { text: 'likes tea' });
  await settings(chat.page).focus();
  await chat.page.keyboard.press('Enter');
  await entry(chat.page).press('Enter');
  const dialog = chat.page.getByRole('dialog', { name: 'Memories', exact: true });
  await press(dialog, 'Edit “likes tea”');
  await chat.page.keyboard.press('Escape');
  await expect(dialog.getByRole('button', { name: 'Edit “likes tea”' })).toBeFocused();
  await chat.page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
  await expect(settings(chat.page)).toBeFocused();
});

test.describe('a server', () => {
  test.use({ demoModel: false });

  test('none of whose assistants remembers has no page of memories', async ({ world, chat }) => {
    world.model.script(says('Green.'));
    await chat.say('which tea?');
    await chat.hears('Green.');
    await expect((await chat.settings()).getByRole('group', { name: 'Theme' })).toBeVisible();
    await expect(entry(chat.page)).toHaveCount(0);
  });

  test('that has memories all the same shows them', async ({ world, chat }) => {
    // A chat that has no message is not known to the server.
    world.mayLog(FAILED_REQUEST);
    await save(world, { text: 'likes tea' });
    await chat.reload();
    await expect(rows(await list(chat.page))).toHaveText([/^likes tea/]);
  });
});

const WAYS = {
  'when it is light': { theme: 'Light' },
  'when it is dark': { theme: 'Dark' },
} as const;

for (const [how, { theme }] of Object.entries(WAYS))
  test(`axe finds nothing serious in the list and in an answer, ${how}`, async ({ world, chat }) => {
    await save(world, { text: 'likes tea', pinned: true, slot: 'drink' }, { text: 'prefers Celsius' });
    await chat.set(theme);
    await chat.say('Do I prefer Celsius or Fahrenheit?');
    await chat.answers.getByRole('button', { name: /used$/ }).click();
    await chat.isAtRest();
    await chat.say(SAID);
    await expect(chat.log.getByText('Saved:')).toBeVisible();
    await chat.isAtRest();
    expect(await seriousViolations(chat.page)).toEqual([]);
    const dialog = await list(chat.page);
    await press(dialog, 'Edit “prefers Celsius”');
    await press(dialog, 'Delete “likes tea”');
    await expect(dialog.getByText('Deleted')).toBeVisible();
    expect(await seriousViolations(chat.page)).toEqual([]);
  });

test.describe('on a phone, in Chinese,', () => {
  test.use({ viewport: { width: 375, height: 740 }, hasTouch: true, isMobile: true, locale: 'zh-CN' });

  test('the list fits, and leads back to where it was opened', async ({ world, page }) => {
    await save(world, {
      text: `喜欢${'茶'.repeat(80)}`,
      slot: 'a-rather-long-name-of-a-slot-that-has-no-space',
    });
    await page.goto(world.server.url);
    await page.getByRole('button', { name: '打开对话列表' }).tap();
    await page.getByRole('button', { name: '设置', exact: true }).tap();
    await page.getByRole('button', { name: '管理记忆' }).tap();
    const dialog = page.getByRole('dialog', { name: '记忆', exact: true });
    await expect(dialog.getByRole('listitem')).toHaveCount(1);
    await dialog.getByRole('button', { name: '添加' }).tap();
    expect(await seriousViolations(page)).toEqual([]);
    const overflow = await page.evaluate(() => {
      const shown = [...document.querySelectorAll('dialog[open], dialog[open] *')];
      return shown
        .filter((element) => element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0)
        .map((element) => element.className);
    });
    expect(overflow).toEqual([]);
    await dialog.getByRole('button', { name: '取消' }).tap();
    await dialog.getByRole('button', { name: '关闭记忆窗口' }).tap();
    await expect(page.getByRole('button', { name: '设置', exact: true })).toBeFocused();
  });
});
