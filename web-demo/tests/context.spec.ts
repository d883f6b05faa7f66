// A chat that becomes long: how full the model's window is, and the summary of what is left out. And who answers.

import { expect, FAILED_REQUEST, gate, PAGES, says, seriousViolations, test } from './world';

/** As many tokens as fill more than 60 % of the demo model's window, and less than it takes to leave something out. */
const LONG = 'lamp '.repeat(3_300);

for (const { name, path } of PAGES) {
  test.describe(`on ${name}`, () => {
    test.use({ path });

    test.describe('with the demo model', () => {
      // A plan for the long message would fill the window up by itself.
      test.use({ demoModel: true, config: 'keep_recent = 2\nsummary_every = 50\nplan = "off"\n' });

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
        await dialog.getByLabel(/^Names and numbers/).fill('port: 8080\nport: 9090');
        await expect(dialog.getByRole('status')).toHaveText(/^Several lines have the same name: port\./);
        await expect(dialog.getByRole('button', { name: 'Save' })).toBeDisabled();
        expect(await seriousViolations(chat.page)).toEqual([]);
        await dialog.getByLabel(/^Names and numbers/).fill('port: 9090');
        // The button is off as soon as it is pressed; a page that is loaded again before the answer saves nothing.
        const saved = chat.page.waitForResponse((response) => response.request().method() === 'PUT');
        await dialog.getByRole('button', { name: 'Save' }).click();
        await saved;
        await expect(dialog.getByRole('button', { name: 'Save' })).toBeDisabled();
        // Nothing is left to be summarised.
        await expect(dialog.getByRole('button', { name: 'Compact now' })).toBeHidden();
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

    test.describe('with a model whose window is not known', () => {
      test.use({ config: 'keep_recent = 2\nsummary_every = 50\n' });

      test('a chat is compacted by keyboard, and the page says why it cannot be', async ({ world, chat }) => {
        world.mayLog(FAILED_REQUEST);
        const { page } = chat;
        const summary = page.getByRole('button', { name: 'Summary: show it, or compact this chat' });
        const dialog = page.getByRole('dialog', { name: 'Summary' });
        const compact = dialog.getByRole('button', { name: 'Compact now' });
        await expect(chat.send).toBeVisible();
        await expect(summary).toBeHidden();

        world.model.script(says('Green.'));
        await chat.say('which tea?');
        await chat.hears('Green.');
        await chat.isAtRest();
        await chat.composer.focus();
        for (const name of ['Attach files', 'Tools']) {
          await page.keyboard.press('Tab');
          await expect(page.getByRole('button', { name, exact: true })).toBeFocused();
        }
        await page.keyboard.press('Tab');
        await expect(summary).toBeFocused();
        await page.keyboard.press('Enter');
        await expect(dialog).toContainText('There is no summary yet');
        await expect(compact).toBeHidden();
        expect(await seriousViolations(page)).toEqual([]);
        await page.keyboard.press('Escape');
        await expect(summary).toBeFocused();

        const writing = gate();
        world.model.script(async (pen) => {
          await writing.opened;
          pen.says('Black.');
        });
        await chat.say('which coffee?');
        await expect(chat.stop).toBeVisible();
        await summary.click();
        await compact.click();
        await expect(dialog.getByRole('alert')).toHaveText(/^An answer is being written/);
        await page.keyboard.press('Escape');
        writing.open();
        await chat.hears('Black.');
        await chat.isAtRest();

        await summary.click();
        // Twice in a row the model gives no summary.
        world.model.script(says('no'), says('no'));
        await compact.click();
        await expect(dialog.getByRole('alert')).toHaveText(/^No summary was written/);
        world.model.script(says(JSON.stringify({ goal: 'Tea for two' })));
        await compact.click();
        await expect(dialog.getByLabel('Goal')).toHaveValue('Tea for two');
        await page.keyboard.press('Escape');
        await expect(summary).toBeFocused();
      });

      test.describe('in Chinese', () => {
        test.use({ locale: 'zh-CN', config: 'keep_recent = 20\n' });

        test('a chat can be compacted, too', async ({ world, page }) => {
          world.mayLog(FAILED_REQUEST);
          world.model.script(says('绿茶。'), says('红茶。'));
          await page.goto(`${world.server.url}${path}`);
          for (const [words, answer] of [
            ['喝什么？', '绿茶。'],
            ['还有呢？', '红茶。'],
          ] as const) {
            await page.getByRole('textbox', { name: '消息' }).fill(words);
            await page.keyboard.press('Enter');
            await expect(page.getByText(answer)).toBeAttached();
          }
          await page.getByRole('button', { name: '摘要：查看，或压缩此对话' }).click();
          const dialog = page.getByRole('dialog', { name: '摘要' });
          await expect(async () => {
            await dialog.getByRole('button', { name: '立即压缩' }).click();
            await expect(dialog.getByRole('alert')).toHaveText(/^目前没有可总结的内容/, { timeout: 500 });
          }).toPass();
        });
      });
    });

    test.describe('with a model whose window is known', () => {
      test.use({ config: 'context_window = 20000\nsummary_every = 50\n' });

      test('what is left out before a step is told where it was left out', async ({ world, chat }) => {
        const written = gate();
        const answered = gate();
        world.model.script(
          says('Hello.'),
          (pen) => {
            // As many as there may be before something is left out.
            pen.inputTokens = 16_000;
            pen.says('Let me see.');
            pen.calls({ name: 'current_time', input: {} });
          },
          async (pen) => {
            await written.opened;
            pen.says(JSON.stringify({ goal: 'Tea for two' }));
          },
          async (pen) => {
            await answered.opened;
            pen.says('Late.');
          },
        );
        await chat.say('hello');
        await chat.hears('Hello.');
        await chat.isAtRest();
        await chat.say('how late is it?');
        const answer = chat.answers.last();
        const status = answer.getByRole('status').filter({ hasText: 'earlier messages' });
        await expect(status).toHaveText('Summarising 2 earlier messages…');
        written.open();
        const line = answer.getByText('2 earlier messages were summarised, so that the chat fits the model.');
        await expect(line).toBeVisible();
        await expect(status).toHaveCount(0);
        await expect(chat.page.locator('[data-going]')).toHaveText('Working…');
        answered.open();
        await chat.hears('Late.');
        await chat.isAtRest();
        await expect(answer).toHaveText(/Let me see\..*Tell the time.*summarised, so that.*Late\./s);
        await chat.reload();
        await expect(answer).toHaveText(/Let me see\..*Tell the time.*summarised, so that.*Late\./s);
        await expect(status).toHaveCount(0);
        expect(await seriousViolations(chat.page)).toEqual([]);
      });

      test('how full it is is still shown after a reload, until the next step says more', async ({
        world,
        chat,
      }) => {
        const { page } = chat;
        world.model.script(says('Green.'), (pen) => {
          pen.inputTokens = 13_000;
          pen.says('Black.');
        });
        await chat.say('which tea?');
        await chat.hears('Green.');
        await chat.isAtRest();
        await expect(page.getByRole('meter')).toHaveCount(0);
        await page.route(`**/api/chat/${chat.id}?optional=true`, async (route) => {
          const response = await route.fetch();
          const record = (await response.json()) as object;
          const context = { inputTokens: 14_400, window: 20_000, compactAt: 16_000 };
          await route.fulfill({ response, json: { ...record, context } });
        });
        await chat.reload();
        await expect(page.getByRole('meter')).toHaveAttribute('aria-valuenow', '72');
        await expect(page.getByRole('button', { name: /^72 % of the model’s window is used/ })).toBeVisible();
        await chat.say('which coffee?');
        await chat.hears('Black.');
        await expect(page.getByRole('meter')).toHaveAttribute('aria-valuenow', '65');
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
        const greeting = chat.page.locator('main').getByRole('heading', { level: 2 });
        await expect(greeting).toHaveText("Tools wait for you. Streams don't break.");
        await picker.selectOption('Support · slow');
        await expect(greeting).toHaveText('Support');
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

    test.describe('with an assistant of many words', () => {
      const LONG_NAME =
        'An assistant with a title of many words · a-model-with-quite-a-long-name-and-then-some';
      test.use({
        config: `
[models.fast]
model = "fast-model"

[models.a-model-with-quite-a-long-name-and-then-some]
model = "slow-model"

[assistants.support]
title = "An assistant with a title of many words"
models = ["fast", "a-model-with-quite-a-long-name-and-then-some"]
`,
      });

      test('the choice is as wide as the one that is chosen, and not wider than is sensible', async ({
        chat,
      }) => {
        const picker = chat.page.getByRole('combobox', { name: 'Assistant' });
        const width = async () => (await picker.boundingBox())?.width ?? 0;
        await expect(picker).toHaveValue('["default","test-model"]');
        expect(await width()).toBeLessThan(120);
        await picker.selectOption(LONG_NAME);
        await expect(picker).toHaveAttribute('title', LONG_NAME);
        expect(await width()).toBeGreaterThan(200);
        expect(await width()).toBeLessThanOrEqual(256);
      });

      for (const size of [375, 320])
        test.describe(`on a phone, ${size} pixels wide`, () => {
          test.use({ viewport: { width: size, height: 700 }, hasTouch: true, isMobile: true });

          test('nothing is pushed out of where one writes', async ({ world, chat }) => {
            const { page } = chat;
            const picker = page.getByRole('combobox', { name: 'Assistant' });
            await picker.selectOption(LONG_NAME);
            world.model.script(says('Green.'));
            await chat.say('which tea?');
            await chat.hears('Green.');
            await chat.isAtRest();
            const isInView = async () => {
              const buttons = page.locator('form').getByRole('button');
              for (const control of [picker, ...(await buttons.all())]) {
                const { x, width } = (await control.boundingBox()) ?? { x: -1, width: 0 };
                expect(x).toBeGreaterThanOrEqual(16);
                expect(x + width).toBeLessThanOrEqual(size - 16);
              }
              expect((await picker.boundingBox())?.width).toBeGreaterThanOrEqual(80);
            };
            await isInView();
            await page.getByRole('button', { name: 'Tools' }).tap();
            await page.getByRole('button', { name: 'Lock search_notes' }).tap();
            await page.keyboard.press('Escape');
            await expect(page.getByRole('button', { name: 'Locked to: search_notes' })).toBeVisible();
            await isInView();
            expect(await seriousViolations(page)).toEqual([]);
          });
        });
    });
  });
}
