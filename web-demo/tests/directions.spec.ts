// The direction of writing: whatever a person, a model or a tool writes in Arabic runs from the right to the left, wherever it stands.

import type { Page } from '@playwright/test';
import { calls, expect, PAGES, says, test } from './world';

/** Every visible block and field whose first letter is Arabic, and that runs from the left to the right. */
const turnedWrongly = (page: Page): Promise<string[]> =>
  page.evaluate(() => {
    const isArabicFirst = (text: string) => /^\P{L}*\p{Script=Arabic}/u.test(text);
    const blockOf = (node: Node): Element | null => {
      let element = node.parentElement;
      while (element !== null && getComputedStyle(element).display === 'inline')
        element = element.parentElement;
      return element;
    };
    const found = new Set<string>();
    const note = (element: Element, text: string) => {
      if (!element.checkVisibility() || !isArabicFirst(text)) return;
      if (getComputedStyle(element).direction === 'rtl') return;
      found.add(`${element.tagName.toLowerCase()} in ${element.parentElement?.className ?? ''}: ${text}`);
    };
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = texts.nextNode(); node !== null; node = texts.nextNode()) {
      const block = blockOf(node);
      if (block !== null && node.textContent?.trim() !== '') note(block, block.textContent);
    }
    for (const field of document.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>('input, textarea'))
      note(field, field.value);
    return [...found];
  });

const NOTE = { title: 'شراء الحليب', body: 'لتران من الحليب.\nحليب الشوفان.' };
const ANSWER =
  '# عنوان\n\nمرحبا **بالعالم**، [رابط](https://example.org/).\n\n- عنصر\n  - عنصر داخلي\n\n1. أول\n\n> اقتباس\n\n' +
  '| عمود | آخر |\n| - | - |\n| نص | نص |\n\n- [ ] مهمة\n\nحاشية[^1]\n\n[^1]: نص الحاشية\n';
const QUESTION = {
  questions: [{ id: 'colour', question: 'أي لون تريد؟', choices: ['أخضر', 'أزرق'], guess: 'أخضر' }],
};

for (const { name, path } of PAGES)
  test.describe(`on ${name}`, () => {
    test.use({ path, config: 'builtin = ["time", "notes", "ask_user"]\n' });

    test('Arabic runs from the right in answers, cards, forms, dialogs and lists', async ({
      world,
      chat,
    }, info) => {
      const { page } = chat;
      const isRight = async (where: string) => {
        expect(await turnedWrongly(page), where).toEqual([]);
      };
      world.model.script(
        says(ANSWER),
        calls({ name: 'write_note', input: NOTE }),
        says('حسنا.'),
        calls({ name: 'ask_user', input: QUESTION }),
      );
      await chat.composer.fill('مرحبا بك');
      await isRight('the message field');
      await chat.composer.press('Enter');
      await chat.hears('نص الحاشية');
      await chat.isAtRest();
      await isRight('an answer');
      await chat.words.first().getByRole('button', { name: 'Edit message', exact: true }).click();
      await isRight('a message that is edited');
      await page.getByRole('button', { name: 'Cancel', exact: true }).click();
      await chat.say('اكتب ملاحظة');
      const card = chat.card('write_note');
      await chat.isInState(card, 'Waiting for you');
      await chat.unfold(card);
      await isRight('a card');
      await info.attach('a card', { body: await page.screenshot() });
      await chat.press(card, 'Edit');
      await isRight('the form of a card');
      await chat.press(card, 'Back');
      await chat.composer.fill('ليس الآن');
      await chat.composer.press('Enter');
      await expect(page.getByRole('dialog')).toBeVisible();
      await isRight('a dialog');
      await page.getByRole('dialog').getByRole('button', { name: 'Deny' }).click();
      await chat.hears('حسنا.');
      await chat.isAtRest();
      await isRight('a card that was denied');
      await chat.say('اسألني');
      await expect(chat.question).toContainText('أي لون تريد؟');
      await isRight('a question');
      await info.attach('a question', { body: await page.screenshot() });
    });
  });
