// A chat that becomes long: how full the model's window is, and the summary of what is left out. And who answers.

import { expect, FAILED_REQUEST, PAGES, says, seriousViolations, test } from './world';

/** As many tokens as fill more than 60 % of the demo model's window, and less than it takes to leave something out. */
const LONG = 'lamp '.repeat(3_300);

for (const { name, path } of PAGES) {
  test.describe(`on ${name}`, () => {
    test.use({ path });

    test.describe('with the demo model', () => {
      test.use({ demoModel: true, config: 'keep_recent = 2\nsummary_every = 50\n' });

      test('a chat that becomes long is compacted, and its summary corrected', async ({ world, chat }) => {
        world.mayLog(FAILED_REQUEST);
        for (const [place, words] of ['hello', 'My port is 8080', LONG].entries()) {
          await chat.say(words);
          await expect(chat.answers).toHaveCount(place + 1);
          await chat.isAtRest();
        }
        await expect(chat.page.getByRole('meter')).toBeVisible();
        await chat.page.getByRole('button', { name: /^\d+ % of the model’s window is used/ }).click();
        const dialog = chat.page.getByRole('dialog', { name: 'Summary' });
        await expect(dialog).toContainText('There is no summary yet');
        await dialog.getByRole('button', { name: 'Compact now' }).click();
        await expect(dialog).toContainText('The model reads this instead of 4 earlier messages');
        expect(await seriousViolations(chat.page)).toEqual([]);
        await dialog.getByLabel('Facts').fill('the port is 9090\nthe lamp is red');
        await dialog.getByLabel(/^Names and numbers/).fill('port: 9090');
        await dialog.getByRole('button', { name: 'Save' }).click();
        await expect(dialog.getByRole('button', { name: 'Save' })).toBeDisabled();
        // Nothing is left to be summarised; the page says so.
        await dialog.getByRole('button', { name: 'Compact now' }).click();
        await expect(dialog.getByRole('alert')).toBeVisible();
        await chat.page.keyboard.press('Escape');

        await chat.reload();
        const line = chat.log.getByRole('button', { name: '4 earlier messages, summarised' });
        await line.click();
        await expect(dialog.getByLabel('Facts')).toHaveValue('the port is 9090\nthe lamp is red');
        await expect(dialog.getByLabel('Names and numbers')).toHaveValue('port: 9090');
        await dialog.getByRole('button', { name: 'Close the summary' }).click();
        await expect(line).toBeFocused();
      });
    });

    test.describe('with two assistants', () => {
      test.use({
        config: `
[models.fast]
model = "fast-model"

[models.slow]
model = "slow-model"

[assistants.support]
title = "Support"
models = ["fast", "slow"]
suggestions = ["Where is my order?"]
`,
      });

      test('the one that is chosen answers, also after a reload', async ({ world, chat }) => {
        const picker = chat.page.getByRole('combobox', { name: 'Assistant' });
        await picker.selectOption('Support · slow');
        world.model.script(says('on its way'));
        await chat.page.getByRole('button', { name: 'Where is my order?' }).click();
        await chat.hears('on its way');
        await chat.isAtRest();
        expect(world.model.requests.at(-1)?.model).toBe('slow-model');
        await chat.reload();
        await chat.hears('on its way');
        await expect(picker).toHaveValue('["support","slow"]');
        await picker.selectOption('Support · fast');
        world.model.script(says('tomorrow'));
        await chat.say('When?');
        await chat.hears('tomorrow');
        expect(world.model.requests.at(-1)?.model).toBe('fast-model');
      });
    });
  });
}
