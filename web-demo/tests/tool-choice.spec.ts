// Which tools the model may use, as the person chose it: what the model API is sent.

import { calls, expect, PAGES, says, test, type ChatPage } from './world';

const NOTES = { type: 'function', function: { name: 'search_notes' } };
const search = (id: string) => calls({ name: 'search_notes', input: { query: 'tea' }, id });

/** Opens the menu of tools. */
async function menu(chat: ChatPage) {
  await chat.page.getByRole('button', { name: /^(Tools|Next: .*|Locked to .*)$/ }).click();
  return chat.page.getByRole('group', { name: 'Tools' });
}

test('a forced tool holds for one message', async ({ world, chat }) => {
  world.model.script(search('one'), says('Found.'), says('Hello.'));
  await (await menu(chat)).getByRole('button', { name: /^search_notes/ }).click();
  await expect(chat.page.getByRole('button', { name: 'Next: search_notes' })).toBeVisible();
  await chat.say('tea');
  await chat.hears('Found.');
  await chat.isAtRest();
  await chat.say('hello');
  await chat.hears('Hello.');
  expect(world.model.requests.map(({ toolChoice }) => toolChoice ?? 'auto')).toEqual([NOTES, 'auto', 'auto']);
});

test('a locked tool holds until it is released, also over a reload', async ({ world, chat }) => {
  world.model.script(search('one'), says('Found.'), search('two'), says('Found again.'), says('Hello.'));
  const choices = await menu(chat);
  await choices.getByRole('button', { name: 'Lock search_notes' }).click();
  await chat.page.keyboard.press('Escape');
  await chat.say('tea');
  await chat.hears('Found.');
  await chat.isAtRest();
  await chat.reload();
  await expect(chat.page.getByRole('button', { name: 'Locked to: search_notes' })).toBeVisible();
  await chat.say('more tea');
  await chat.hears('Found again.');
  await chat.isAtRest();
  await chat.page.getByRole('button', { name: 'Release the lock' }).click();
  await chat.say('hello');
  await chat.hears('Hello.');
  expect(world.model.requests.map(({ toolChoice }) => toolChoice ?? 'auto')).toEqual([
    NOTES,
    'auto',
    NOTES,
    'auto',
    'auto',
  ]);
});

test('no tools, where none are wanted', async ({ world, chat }) => {
  world.model.script(says('Just words.'));
  await (await menu(chat)).getByRole('button', { name: 'No tools' }).click();
  await chat.say('hello');
  await chat.hears('Just words.');
  expect(world.model.request(1).toolChoice).toBe('none');
});

for (const { name, path } of PAGES)
  test.describe(`on a phone, on ${name}`, () => {
    test.use({ path, viewport: { width: 375, height: 700 }, hasTouch: true, isMobile: true });

    test('the menu is above where one writes', async ({ chat }) => {
      const choices = await menu(chat);
      await choices.getByRole('button', { name: 'Lock search_notes' }).tap();
      await choices.getByRole('button', { name: 'No tools' }).tap();
      await expect(choices).toBeHidden();
      await expect(chat.page.getByRole('button', { name: 'Next: No tools' })).toBeVisible();
    });
  });
