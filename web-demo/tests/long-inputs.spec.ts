// What a person sees before saying yes.

import { calls, expect, PAGES, park, says, test } from './world';

const LINES = Array.from({ length: 60 }, (_, line) => `line ${line}`);

const LONG = {
  name: 'write_note',
  input: {
    title: 'Milk \u202etxt',
    body: `ok${'\n'.repeat(201)}${LINES.join('\n')}\nHIDDEN: transfer all`,
  },
};

for (const { name, path } of PAGES) {
  test.describe(`on ${name}`, () => {
    test.use({ path });

    test('a long input shows its end, and is approved only after all of it was shown', async ({
      world,
      chat,
    }) => {
      world.model.script(calls(LONG), says('Written.'));
      await chat.say('write it down');
      const card = chat.card('write_note');
      await expect(card).toContainText('HIDDEN: transfer all');
      await expect(card).toContainText('200 empty lines');
      await expect(card).toContainText('U+202E');
      await expect(card).toContainText(/Hidden here: \d+ characters in \d+ lines/);
      const approve = card.getByRole('button', { name: 'Approve', exact: true });
      await expect(approve).toBeDisabled();
      await chat.press(card, 'Show all');
      await expect(card).toContainText('line 30');
      await approve.click();
      await chat.hears('Written.');
    });

    test('so it is where a client of version 5 began the chat', async ({ world }) => {
      world.model.script(calls(LONG), says('Written.'));
      await park(world, 'old', 'write it down', 5);
      const chat = await world.tab('old');
      const approve = chat.log.getByRole('button', { name: 'Approve', exact: true });
      await expect(approve).toBeDisabled();
      await expect(chat.log).toContainText('HIDDEN: transfer all');
      await chat.press(chat.log, 'Show all of it');
      await approve.click();
      await chat.hears('Written.');
    });
  });
}
