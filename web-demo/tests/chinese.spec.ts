// The Chinese page has no English of its own: only names of tools, and what persons, models and tools have written.

import type { Page } from '@playwright/test';
import { calls, expect, PAGES, says, test, FAILED_REQUEST } from './world';

/** Words that are names, or that the test has written. */
const NAMES =
  /\b(test-model|ask_user|write_note|search_notes|current_time|Fermata|Enter|Shift|useChat|assistant-ui|JSON|Markdown|curl|MCP)\b/g;

/** The Latin words in a part of the page that are not names. */
async function english(page: Page, selector: string): Promise<string[]> {
  const texts = await page.locator(selector).allInnerTexts();
  return texts.flatMap((text) => text.replace(NAMES, '').match(/\p{Script=Latin}{2,}/gu) ?? []);
}

for (const { name, path } of PAGES)
  test.describe(`on ${name}`, () => {
    test.use({ path, config: 'builtin = ["time", "notes", "ask_user"]\nchain = "ask"\n' });

    test('titles, reasons, questions and cancellations are Chinese', async ({ world, chat }, info) => {
      world.mayLog(FAILED_REQUEST);
      const { page } = chat;
      await chat.set('中文');
      const composer = page.getByRole('textbox', { name: '消息', exact: true });
      const say = async (words: string) => {
        await composer.fill(words);
        await composer.press('Enter');
      };
      const isChinese = async (where: string) => {
        expect(await english(page, 'main'), where).toEqual([]);
      };
      world.model.script(
        calls({ name: 'current_time', input: {} }),
        calls({ name: 'write_note', input: { title: '牛奶', body: '两升' } }),
        says('好。'),
      );
      await say('记一下');
      await expect(page.getByRole('button', { name: '批准', exact: true })).toBeVisible();
      await expect(page.getByText('写入笔记“牛奶”').first()).toBeVisible();
      await isChinese('a call that is asked about');
      await info.attach('a call', { body: await page.screenshot() });
      await page
        .getByRole('button', { name: /总是允许|始终/ })
        .first()
        .click();
      await isChinese('the menu of always');
      await say('请把标题改成别的内容，然后再给我看一遍，我想先确认一下');
      await expect(page.getByText('好。')).toBeVisible();
      await isChinese('a call that was cancelled');
      world.model.script(
        calls({
          name: 'ask_user',
          input: {
            questions: [{ id: 'tea', question: '要哪种茶？', choices: ['绿茶', '红茶'], guess: '绿茶' }],
          },
        }),
      );
      await say('问我');
      await expect(page.getByText('要哪种茶？').first()).toBeVisible();
      await expect(page.locator('[data-going]')).toHaveAttribute('data-going', 'waits-for-you');
      await isChinese('a question of the assistant');
    });
  });
