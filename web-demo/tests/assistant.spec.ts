// The page with assistant-ui: the same chats, the same cards, the same answers.

import { calls, expect, gate, journal, says, test, times } from './world';

test.use({ path: '/assistant-ui', hand: true });

const change = (key: string) => ({ name: 'hand__change', input: { key }, id: key });

test('text streams, reasoning is folded away, and a message follows another', async ({ world, chat }) => {
  const more = gate();
  world.model.script(async (pen) => {
    pen.reasons('Green or black?');
    pen.says('**Tea** ', 'is ');
    await more.opened;
    pen.says('ready.');
  }, says('It is hot.'));
  await chat.say('tea?');
  await chat.hears('Tea is');
  await expect(chat.stop).toBeVisible();
  more.open();
  await chat.hears('Tea is ready.');
  await expect(chat.answers.last().getByRole('strong')).toHaveText('Tea');
  const thought = chat.answers.last().getByText('Green or black?');
  await expect(thought).toBeHidden();
  await chat.answers.last().getByText('Thought', { exact: true }).click();
  await expect(thought).toBeVisible();
  await chat.isAtRest();
  await chat.say('how is it?');
  await chat.hears('It is hot.');
  await expect(chat.words).toHaveText(['tea?', 'how is it?']);
});

test('stop ends the answer', async ({ world, chat }) => {
  world.model.script(async (pen) => {
    pen.says('On and on');
    await pen.gone;
  });
  await chat.say('tell me everything');
  await chat.hears('On and on');
  await chat.stop.click();
  await chat.isAtRest();
  await expect.poll(() => world.model.request(1).gone).toBe(true);
});

test('an answer is made again, and an edited message is answered anew', async ({ world, chat }) => {
  world.model.script(says('Heads.'), says('Tails.'), says('Six.'));
  await chat.say('flip a coin');
  await chat.hears('Heads.');
  await chat.isAtRest();
  await chat.answers.last().getByRole('button', { name: 'Answer again' }).click();
  await chat.hears('Tails.');
  await chat.isAtRest();
  await chat.words.last().getByRole('button', { name: 'Edit message', exact: true }).click();
  await chat.page.getByRole('textbox', { name: 'Edit your message' }).fill('roll a die');
  await chat.page.getByRole('button', { name: 'Send edited message' }).click();
  await chat.hears('Six.');
  await expect(chat.answers).toHaveCount(1);
  expect(world.model.requests.map(({ words }) => words)).toEqual([
    ['user: flip a coin'],
    ['user: flip a coin'],
    ['user: roll a die'],
  ]);
});

test('a call is approved, denied with a reason, or edited', async ({ world, chat }) => {
  world.model.script(calls(change('one'), change('two'), change('three')), says('All done.'));
  await chat.say('change three things');
  const card = (place: number) => chat.card('hand__change').nth(place);
  await expect(chat.gate).toContainText('3 decisions left');
  await chat.press(card(0), 'Approve');
  await expect(chat.gate).toContainText('2 decisions left');
  await chat.press(card(1), 'Deny');
  await card(1)
    .getByRole('textbox', { name: /^Why not/ })
    .fill('Not that.');
  await chat.press(card(1), 'Deny');
  await expect(chat.gate).toContainText('1 decision left');
  expect(times(world.server, 'changed')).toBe(0);
  await chat.press(card(2), 'Edit');
  await card(2).getByRole('textbox', { name: /^key/i }).fill('four');
  await chat.press(card(2), 'Approve with these changes');
  await chat.hears('All done.');
  await chat.isInState(card(1), 'Denied');
  const changed = journal(world.server).filter(({ event }) => event === 'changed');
  expect(changed.map(({ about }) => about).sort()).toEqual(['four', 'one']);
  expect(world.model.request(2).results[1]?.text).toContain('Not that.');
});

test('live output and a question of a tool', async ({ world, chat }) => {
  world.model.script(calls({ name: 'hand__ask', input: { key: 'Ann' } }), says('Blue it is.'));
  await chat.say('ask me');
  await expect(chat.question).toContainText('Which color, Ann?');
  await chat.question.getByRole('combobox').selectOption({ label: 'blue' });
  await chat.press(chat.question, 'Send');
  await chat.hears('Blue it is.');
});

test('the tools of the page run, once', async ({ world, chat, context }) => {
  await context.grantPermissions(['geolocation']);
  await context.setGeolocation({ latitude: 52.52, longitude: 13.405 });
  const chart = {
    title: 'Cups a day',
    kind: 'bar',
    labels: ['Mon', 'Tue'],
    series: [{ name: 'tea', values: [3, 5] }],
  };
  world.model.script(
    calls(
      { name: 'get_location', input: {}, id: 'where' },
      { name: 'show_chart', input: chart, id: 'chart' },
    ),
    calls({ name: 'ask_question', input: { question: 'Tea?', options: ['Yes', 'No'] } }),
    calls({ name: 'create_record', input: { collection: 'teas', title: 'Sencha' } }),
    says('That was all.'),
  );
  await chat.say('do it all');
  await chat.isInState(chat.card('get_location'), 'Done');
  await expect(chat.card('show_chart').getByRole('img', { name: /Cups a day/ })).toBeVisible();
  await chat.press(chat.card('ask_question'), 'Yes');
  await chat.press(chat.card('create_record'), 'Save');
  await chat.hears('That was all.');
  await expect(chat.card('create_record')).toContainText('Kept in this browser');
  expect(world.model.requests).toHaveLength(4);
});

test('a reload while a call waits finds its card, and the card works', async ({ world, chat }) => {
  world.model.script(calls(change('one')), says('Changed.'));
  await chat.say('change it');
  const card = chat.card('hand__change');
  await chat.isInState(card, 'Waiting for you');
  await chat.reload();
  await chat.isInState(card, 'Waiting for you');
  await chat.press(card, 'Approve');
  await chat.hears('Changed.');
  expect(times(world.server, 'changed')).toBe(1);
});

test('chats are listed, opened and forgotten', async ({ world, chat }) => {
  world.model.script(says('Green.'), says('Black.'));
  await chat.say('which tea?');
  await chat.hears('Green.');
  await chat.isAtRest();
  await chat.page.getByRole('button', { name: 'New chat' }).click();
  await expect(chat.log).toBeEmpty();
  await chat.say('which coffee?');
  await chat.hears('Black.');
  await chat.chats.getByRole('link', { name: /^which tea\?/ }).click();
  await chat.hears('Green.');
  await chat.chats.getByRole('button', { name: 'Delete “which coffee?”' }).click();
  await chat.page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await expect(chat.chats.getByRole('link')).toHaveText([/^which tea\?/]);
  await chat.hears('Green.');
});

test('a chat of which the frame has not heard yet is deleted', async ({ world, chat }) => {
  world.model.script(says('Green.'), says('Black.'));
  await chat.say('which tea?');
  await chat.hears('Green.');
  await chat.isAtRest();
  // The time of a chat is the server's.
  await expect(chat.chats.getByRole('link')).toHaveText([/^which tea\?\d/]);
  const list = gate();
  // The frame's list of chats; assistant-ui asks for more at a time.
  await chat.page.route('**/api/chats?limit=30', async (route) => {
    await list.opened;
    await route.continue();
  });
  await chat.page.getByRole('button', { name: 'New chat' }).click();
  await expect(chat.log).toBeEmpty();
  await chat.say('which coffee?');
  await chat.hears('Black.');
  await chat.isAtRest();
  await chat.chats.getByRole('link', { name: /^which tea\?/ }).click();
  await chat.hears('Green.');
  const gone = chat.page.waitForResponse((response) => response.request().method() === 'DELETE');
  await chat.chats.getByRole('button', { name: 'Delete “which coffee?”' }).click();
  await chat.page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  expect((await gone).status()).toBe(204);
  list.open();
  await expect(chat.chats.getByRole('link')).toHaveText([/^which tea\?/]);
});

test('a chat is the same on both pages, and an answer on one closes the card on the other', async ({
  world,
  chat,
}) => {
  world.model.script(calls(change('one')), says('Changed.'), says('Hello to both.'));
  await chat.say('change it');
  await chat.isInState(chat.card('hand__change'), 'Waiting for you');
  const plain = await world.tab(chat.id, '/');
  await plain.isInState(plain.card('hand__change'), 'Waiting for you');
  await plain.press(plain.card('hand__change'), 'Approve');
  for (const page of [plain, chat]) {
    await page.hears('Changed.');
    await page.isInState(page.card('hand__change'), 'Done');
    await page.isAtRest();
  }
  await plain.page.bringToFront();
  await plain.say('hello');
  await plain.hears('Hello to both.');
  await chat.page.bringToFront();
  await expect(chat.words).toHaveText(['change it', 'hello']);
  await chat.hears('Hello to both.');
  expect(times(world.server, 'changed')).toBe(1);
});

test('the switch between the pages keeps the chat', async ({ world, chat }) => {
  world.model.script(says('Green.'));
  await chat.say('which tea?');
  await chat.hears('Green.');
  await (await chat.settings()).getByRole('link', { name: 'useChat' }).click();
  await expect(chat.page).toHaveURL(new RegExp(`/\\?chat=${chat.id}$`));
  await chat.hears('Green.');
});
