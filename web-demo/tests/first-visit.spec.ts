// As a new user: no key is set, so the demo model answers. Every line that the greeting offers does something
// sensible.

import { expect, PAGES, test, type ChatPage } from './world';

test.use({
  demoModel: true,
  geolocation: { latitude: 52.52, longitude: 13.405 },
  permissions: ['geolocation'],
});

async function followPlan(chat: ChatPage) {
  const plan = chat.card('make_plan');
  await expect(plan.getByRole('group', { name: 'Plan', exact: true }).getByRole('listitem')).toHaveCount(2);
  await chat.press(plan, 'Approve');
  await chat.isInState(chat.card('search_notes'), 'Done');
  await chat.press(chat.card('write_note'), 'Approve');
  await chat.isInState(chat.card('write_note'), 'Done');
  await chat.isInState(plan, 'Done · 2 of 2 steps');
}

/** What a line should lead to, and what the person does about it. */
const LINES: Record<string, (chat: ChatPage) => Promise<void>> = {
  hello: async (chat) => {
    await chat.hears('built-in demo');
  },
  'what time is it': async (chat) => {
    await chat.isInState(chat.card('current_time'), 'Done');
    await chat.hears(/It is \d\d:\d\d in UTC\./);
  },
  'write a note: buy milk': async (chat) => {
    await chat.press(chat.card('write_note'), 'Approve');
    await chat.hears('I wrote down “');
  },
  'remember that I prefer Celsius': async (chat) => {
    await chat.isInState(chat.card('remember'), 'Done');
    await chat.hears('I will remember “');
  },
  'where am I': async (chat) => {
    await chat.isInState(chat.card('get_location'), 'Done');
    await chat.hears('52.52');
  },
  'do everything': async (chat) => {
    await expect(chat.gate).toBeVisible();
    await chat.press(chat.card('write_note'), 'Approve');
    for (const tool of ['current_time', 'search_notes', 'write_note', 'get_location'])
      await chat.isInState(chat.card(tool), 'Done');
    await chat.hears('I wrote down');
  },
  'draw a chart': async (chat) => {
    await chat.isInState(chat.card('show_chart'), 'Done');
    await expect(chat.card('show_chart').getByRole('img', { name: /^Chart/ })).toBeVisible();
  },
  'ask me something': async (chat) => {
    const card = chat.card('ask_question');
    await chat.isInState(card, 'Waiting for you');
    await answerForm(chat);
    await chat.isInState(card, 'Done');
  },
  'search notes for tea and write a list': followPlan,
  'search my notes for tea and write a shopping list': followPlan,
  'ask the busy service': async (chat) => {
    await chat.isInState(chat.card('busy_search'), 'Done');
    await chat.hears('the third time there was an answer');
    await expect(chat.card('busy_search')).toContainText('tried 3 times');
  },
  'ask the broken service': async (chat) => {
    await chat.hears('your notes were searched in its place');
    await chat.isAtRest();
    await expect(chat.card('broken_search')).toContainText('search_notes was called in its place');
    await expect(chat.card('search_notes')).toContainText('in place of broken_search');
  },
  'book a table': async (chat) => {
    await chat.press(chat.question, 'Send');
    await chat.hears('A table on Friday for 2 it is.');
  },
  'pick a file': async (chat) => {
    const chooser = chat.page.waitForEvent('filechooser');
    await chat.press(chat.card('pick_file'), 'Choose a file');
    await (await chooser).setFiles({ name: 'list.txt', mimeType: 'text/plain', buffer: Buffer.from('milk') });
    await chat.hears('list.txt');
  },
  'create a record: tea': async (chat) => {
    await chat.press(chat.card('create_record'), 'Save');
    await expect(chat.card('create_record')).toContainText('Kept in this browser');
  },
  'think about tea': async (chat) => {
    await chat.hears('Thought');
    await chat.hears('as well as a script can');
  },
  'tell me a long story': async (chat) => {
    await expect
      .poll(async () => ((await chat.answers.last().textContent()) ?? '').length)
      .toBeGreaterThan(1000);
  },
};

/** What only the demo model names: its words, and the tool that they lead to. */
const TOOL_LINES: [RegExp, string][] = [
  [/^find my notes/, 'search_notes'],
  [/^use current_time/, 'current_time'],
  [/^what do you remember/, 'recall'],
];

/** The same for a line with other words after the colon, and for what only the demo model names. */
async function actOn(line: string, chat: ChatPage) {
  const act = Object.entries(LINES).find(([known]) => line.split(':')[0] === known.split(':')[0])?.[1];
  if (act !== undefined) return act(chat);
  const tool = TOOL_LINES.find(([words]) => words.test(line))?.[1];
  if (tool === undefined) throw new Error(`nobody knows what “${line}” should lead to`);
  return chat.isInState(chat.card(tool), 'Done');
}

/** Fills in whatever the demo model asks for. */
async function answerForm(chat: ChatPage) {
  const card = chat.card('ask_question');
  for (const field of await card.getByRole('textbox').all()) await field.fill('2');
  for (const choice of await card.getByRole('combobox').all()) await choice.selectOption({ index: 1 });
  await chat.press(card, 'Send');
}

for (const { name, path } of PAGES) {
  test.describe(name, () => {
    test.use({ path });

    test('greets, and each of its suggestions leads somewhere', async ({ chat }) => {
      const suggestions = chat.page.getByRole('group', { name: 'Suggestions' }).getByRole('button');
      await expect(suggestions.first()).toBeVisible();
      const lines = await suggestions.allTextContents();
      expect(lines.filter((line) => LINES[line] === undefined)).toEqual([]);
      expect(lines).toHaveLength(6);
      for (const line of lines) {
        await test.step(line, async () => {
          await suggestions.getByText(line, { exact: true }).click();
          await expect(chat.words).toHaveText(line);
          await LINES[line]?.(chat);
          await chat.isAtRest();
          await chat.page.getByRole('button', { name: 'New chat' }).click();
          await expect(suggestions.first()).toBeVisible();
        });
      }
    });
  });
}

test('the lines that the demo model lists itself lead somewhere', async ({ chat }) => {
  await chat.say('help');
  await chat.isAtRest();
  const lines = (await chat.answers.last().getByRole('listitem').getByRole('code').allTextContents()).filter(
    (line) => !line.includes('<'),
  );
  expect(lines.length).toBeGreaterThan(5);
  for (const line of lines) {
    await test.step(line, async () => {
      await chat.page.getByRole('button', { name: 'New chat' }).click();
      await expect(chat.log).toBeEmpty();
      await chat.say(line);
      await actOn(line, chat);
      await chat.isAtRest();
      await expect(chat.answers.last()).not.toContainText('I am a script, not a language model');
    });
  }
});

test('each of the Chinese suggestions is understood', async ({ chat }) => {
  await chat.set('中文');
  const suggestions = chat.page.getByRole('group', { name: '建议' }).getByRole('button');
  const lines = await suggestions.allTextContents();
  for (const line of lines) {
    await test.step(line, async () => {
      await suggestions.getByText(line, { exact: true }).click();
      const answer = chat.page.getByRole('log').getByRole('article').last();
      await expect(answer).not.toBeEmpty();
      await expect(answer).not.toContainText('我是一段脚本，不是语言模型');
      await chat.page.getByRole('button', { name: '新对话' }).click();
      await expect(suggestions.first()).toBeVisible();
    });
  }
});
