// The keys of the pages.

import type { Page } from '@playwright/test';
import { calls, ChatPage, expect, PAGES, says, seriousViolations, test } from './world';

const NOTE = { name: 'write_note', input: { title: 'Milk', body: 'Two litres.' } };
const AT = new Date(0).toISOString();

/** Has the list show chats with these titles, a page of them at a time. */
async function list(page: Page, ...pages: string[][]) {
  await page.route('**/api/chats?*', (route) => {
    const before = new URL(route.request().url()).searchParams.get('before');
    const place = Number(before ?? 0);
    const chats = (pages[place] ?? []).map((title) => ({
      ...{ id: title.replaceAll(' ', '-'), title },
      ...{ createdAt: AT, updatedAt: AT },
    }));
    return route.fulfill({ json: { chats, ...(place + 1 < pages.length && { next: String(place + 1) }) } });
  });
}

for (const { name, path } of PAGES)
  test.describe(`on ${name}`, () => {
    test.use({ path });

    test('Ctrl+K finds a chat by its title', async ({ world, page }) => {
      await list(page, ['Green tea', 'Black coffee', 'Tea for two'], ['Old tea']);
      const chat = await ChatPage.open(page, world.server.url, path);
      const { keyboard } = page;
      await chat.composer.focus();
      await keyboard.press('Control+k');
      const finder = page.getByRole('dialog', { name: 'Find a chat' });
      const options = finder.getByRole('option');
      const selected = finder.getByRole('option', { selected: true });
      await expect(finder.getByRole('combobox', { name: 'Title of the chat' })).toBeFocused();
      await expect(selected).toHaveText('New chat');
      await keyboard.type('tea');
      await expect(options).toHaveText([/^Green tea/, /^Tea for two/, 'New chat', 'Show older chats']);
      await expect(selected).toHaveText(/^Green tea/);
      expect(await seriousViolations(page)).toEqual([]);
      await keyboard.press('ArrowUp');
      await expect(selected).toHaveText('Show older chats');
      await keyboard.press('Enter');
      await expect(options).toHaveText([/^Green tea/, /^Tea for two/, /^Old tea/, 'New chat']);
      await keyboard.type(' old');
      await expect(selected).toHaveText(/^Old tea/);
      await keyboard.press('Enter');
      await expect(finder).toBeHidden();
      await expect(page).toHaveURL(/chat=Old-tea/);
    });

    test('Ctrl+K leads to a new chat, closes again, and has a button', async ({ chat }) => {
      const { page } = chat;
      const finder = page.getByRole('dialog', { name: 'Find a chat' });
      await page.keyboard.press('Control+k');
      await expect(finder).toBeVisible();
      await page.keyboard.press('Control+k');
      await expect(finder).toBeHidden();
      await expect(chat.composer).toBeFocused();
      await page.getByRole('button', { name: 'Find a chat' }).click();
      await page.keyboard.press('Enter');
      await expect(finder).toBeHidden();
      await expect(page).not.toHaveURL(new RegExp(chat.id));
    });

    test('the arrow up in an empty field edits the last message', async ({ world, chat }) => {
      const { page } = chat;
      world.model.script(says('A cat.'), says('A dog.'));
      await chat.say('name a pet');
      await chat.hears('A cat.');
      await chat.isAtRest();
      const field = page.getByRole('textbox', { name: 'Edit your message' });
      await chat.composer.fill('something');
      await page.keyboard.press('ArrowUp');
      await expect(field).toBeHidden();
      await chat.composer.fill('');
      await page.keyboard.press('ArrowUp');
      await expect(field).toBeFocused();
      await expect(field).toHaveValue('name a pet');
      await page.keyboard.press('Escape');
      await expect(field).toBeHidden();
      await chat.composer.focus();
      await page.keyboard.press('ArrowUp');
      await field.fill('name another');
      await page.keyboard.press('Enter');
      await chat.hears('A dog.');
      await expect(chat.words).toHaveText(['name another']);
    });

    test('Escape stops the answer, unless it closes something', async ({ world, chat }) => {
      const { page } = chat;
      world.model.script(async (pen) => {
        pen.says('On and on');
        await pen.gone;
      });
      await chat.say('tell me everything');
      await chat.hears('On and on');
      await page.getByRole('button', { name: 'Tools' }).click();
      await page.keyboard.press('Escape');
      await expect(page.getByRole('group', { name: 'Tools' })).toBeHidden();
      await page.keyboard.press('Control+k');
      await page.keyboard.press('Escape');
      await expect(page.getByRole('dialog', { name: 'Find a chat' })).toBeHidden();
      await expect(chat.stop).toBeVisible();
      await chat.composer.press('Escape');
      await chat.isAtRest();
      await expect.poll(() => world.model.request(1).gone).toBe(true);
    });

    test('Escape cancels nothing that waits for a person', async ({ world, chat }) => {
      world.model.script(calls(NOTE), says('Written.'));
      await chat.say('write it down');
      await chat.isInState(chat.card('write_note'), 'Waiting for you');
      await chat.composer.press('Escape');
      await chat.press(chat.card('write_note'), 'Approve');
      await chat.hears('Written.');
    });

    test('A and D decide on the card that has the focus', async ({ world, chat }) => {
      const { page } = chat;
      world.model.script(calls(NOTE, { ...NOTE, id: 'two' }), says('Done.'));
      await chat.say('write it down twice');
      const [first, second] = [chat.card('write_note').first(), chat.card('write_note').last()];
      await chat.isInState(second, 'Waiting for you');
      await chat.composer.fill('a');
      await expect(chat.composer).toHaveValue('a');
      await chat.isInState(first, 'Waiting for you');
      await chat.composer.fill('');
      await first.focus();
      await page.keyboard.press('Control+a');
      await chat.isInState(first, 'Waiting for you');
      await page.keyboard.press('a');
      await chat.isInState(first, 'Waiting for the other calls of this step');
      await second.focus();
      await page.keyboard.press('d');
      const why = second.getByRole('textbox', { name: 'Why not? (optional)' });
      await expect(why).toBeFocused();
      await page.keyboard.type('add no more');
      await expect(why).toHaveValue('add no more');
      await page.keyboard.press('Enter');
      await chat.hears('Done.');
      await chat.isInState(second, 'Denied');
      await chat.isInState(first, 'Done');
    });

    test('a question mark lists the keys, outside of a field', async ({ chat }) => {
      const { page } = chat;
      const keys = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
      await chat.composer.press('Shift+?');
      await expect(chat.composer).toHaveValue('?');
      await page.getByRole('button', { name: 'Settings' }).focus();
      await page.keyboard.press('Shift+?');
      await expect(keys).toContainText('Find a chat, or begin a new one');
      expect(await seriousViolations(page)).toEqual([]);
      await page.keyboard.press('Escape');
      await expect(keys).toBeHidden();
      const settings = await chat.settings();
      await settings.getByRole('button', { name: 'Show shortcuts' }).click();
      await expect(keys).toBeVisible();
    });
  });
