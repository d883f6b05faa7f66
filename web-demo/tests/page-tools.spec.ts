// The tools of the page itself: they really use the browser, and each call runs once.

import { calls, expect, says, test, type ChatPage } from './world';

/** The records that the page keeps, as the browser has them. */
const records = (chat: ChatPage) =>
  chat.page.evaluate(() =>
    Object.entries(localStorage)
      .filter(([key]) => key.includes('record'))
      .map(([, value]) => JSON.parse(value as string) as { title: string }),
  );

test('get_location gives the place that the browser tells', async ({ world, chat, context }) => {
  await context.grantPermissions(['geolocation']);
  await context.setGeolocation({ latitude: 52.52, longitude: 13.405, accuracy: 25 });
  world.model.script(calls({ name: 'get_location', input: {} }), says('Berlin.'));
  await chat.say('where am I?');
  const card = chat.card('get_location');
  await chat.isInState(card, 'Done');
  await expect(card).toContainText('52.5200, 13.4050');
  await expect(card).toContainText('within 25 m');
  await chat.hears('Berlin.');
  const told = JSON.parse(world.model.request(2).results[0]?.text ?? '') as Record<string, unknown>;
  expect(told).toEqual({ latitude: 52.52, longitude: 13.405, accuracy: 25 });
});

test('get_location says so where the permission is refused', async ({ world, chat, context }) => {
  await context.clearPermissions();
  world.model.script(calls({ name: 'get_location', input: {} }), says('I see.'));
  await chat.say('where am I?');
  const card = chat.card('get_location');
  await chat.isInState(card, 'Failed');
  await expect(card).toContainText('did not allow');
  await chat.hears('I see.');
  expect(world.model.request(2).results[0]?.text).toContain('did not allow');
});

test('ask_question asks with a form, and the model is told the answers', async ({ world, chat }) => {
  const fields = {
    type: 'object',
    properties: {
      name: { type: 'string', title: 'Your name' },
      guests: { type: 'integer', title: 'Guests', minimum: 1 },
      when: { type: 'string', title: 'When', enum: ['noon', 'evening'] },
    },
    required: ['name', 'guests'],
  };
  world.model.script(
    calls({ name: 'ask_question', input: { question: 'A table for whom?', fields } }),
    says('Booked.'),
  );
  await chat.say('book a table');
  const card = chat.card('ask_question');
  await chat.isInState(card, 'Waiting for you');
  await expect(card).toContainText('A table for whom?');
  await card.getByRole('textbox', { name: /^Your name/ }).fill('Ann');
  await card.getByRole('textbox', { name: /^Guests/ }).fill('0');
  await card.getByRole('combobox', { name: /^When/ }).selectOption({ label: 'evening' });
  await chat.press(card, 'Send');
  await expect(card.getByRole('alert')).toBeVisible();
  await card.getByRole('textbox', { name: /^Guests/ }).fill('2');
  await chat.press(card, 'Send');
  await chat.isInState(card, 'Done');
  await chat.hears('Booked.');
  expect(JSON.parse(world.model.request(2).results[0]?.text ?? '')).toEqual({
    answers: { name: 'Ann', guests: 2, when: 'evening' },
  });
});

test('ask_question offers a choice', async ({ world, chat }) => {
  world.model.script(
    calls({ name: 'ask_question', input: { question: 'Tea or coffee?', options: ['Tea', 'Coffee'] } }),
    says('Tea, then.'),
  );
  await chat.say('offer me something');
  await chat.press(chat.card('ask_question'), 'Tea');
  await chat.hears('Tea, then.');
  expect(JSON.parse(world.model.request(2).results[0]?.text ?? '')).toEqual({ answer: 'Tea' });
});

test('pick_file reads the file that the person chooses', async ({ world, chat }) => {
  world.model.script(
    calls({ name: 'pick_file', input: { purpose: 'The shopping list, please.' } }),
    says('Two things.'),
  );
  await chat.say('read my list');
  const card = chat.card('pick_file');
  await expect(card).toContainText('The shopping list, please.');
  const chooser = chat.page.waitForEvent('filechooser');
  await chat.press(card, 'Choose a file');
  await (
    await chooser
  ).setFiles({ name: 'list.txt', mimeType: 'text/plain', buffer: Buffer.from('milk\ntea\n') });
  await chat.isInState(card, 'Done');
  await expect(card).toContainText('list.txt');
  await chat.hears('Two things.');
  const told = JSON.parse(world.model.request(2).results[0]?.text ?? '') as Record<string, unknown>;
  expect(told).toMatchObject({ name: 'list.txt', size: 9, text: 'milk\ntea\n' });
});

test('pick_file without a file tells the model so', async ({ world, chat }) => {
  world.model.script(calls({ name: 'pick_file', input: {} }), says('No file, then.'));
  await chat.say('read a file');
  await chat.press(chat.card('pick_file'), 'No file');
  await chat.hears('No file, then.');
});

test('show_chart draws, and gives the numbers as a table', async ({ world, chat }) => {
  const input = {
    title: 'Cups a day',
    kind: 'bar',
    labels: ['Mon', 'Tue'],
    series: [{ name: 'tea', values: [3, 5] }],
  };
  world.model.script(calls({ name: 'show_chart', input }), says('There it is.'));
  await chat.say('draw');
  const card = chat.card('show_chart');
  await chat.isInState(card, 'Done');
  const drawing = card.getByRole('img', { name: /Cups a day/ });
  await expect(drawing).toBeVisible();
  const colours = () =>
    drawing.evaluate((element) => {
      const canvas = element.querySelector('canvas');
      const pixels = canvas?.getContext('2d')?.getImageData(0, 0, canvas.width, canvas.height).data ?? [];
      const seen = new Set<string>();
      for (let at = 0; at < pixels.length; at += 4)
        seen.add([pixels[at], pixels[at + 1], pixels[at + 2], pixels[at + 3]].join());
      return seen.size;
    });
  await expect.poll(colours).toBeGreaterThan(2);
  await card.getByText('Numbers', { exact: true }).click();
  await expect(card.getByRole('table', { name: 'Cups a day' }).getByRole('row')).toHaveText([
    'tea',
    'Mon3',
    'Tue5',
  ]);
  await chat.hears('There it is.');
});

test('a chart that cannot be drawn is an error that the model can mend', async ({ world, chat }) => {
  const input = { title: 'Odd', kind: 'bar', labels: ['Mon', 'Tue'], series: [{ name: 'tea', values: [3] }] };
  world.model.script(calls({ name: 'show_chart', input }), says('I will count again.'));
  await chat.say('draw');
  await chat.isInState(chat.card('show_chart'), 'Failed');
  await chat.hears('I will count again.');
  expect(world.model.request(2).results[0]?.text).toContain('needs 2 numbers');
});

test('create_record writes nothing before it is allowed, and then once', async ({ world, chat }) => {
  world.model.script(
    calls({ name: 'create_record', input: { collection: 'teas', title: 'Sencha', data: { grams: 50 } } }),
    says('Kept.'),
  );
  await chat.say('keep it');
  const card = chat.card('create_record');
  await expect(card).toContainText('Save this record in your browser?');
  expect(await records(chat)).toEqual([]);
  await chat.press(card, 'Save');
  await chat.isInState(card, 'Done');
  await chat.hears('Kept.');
  await chat.reload();
  await expect(card).toContainText('Kept in this browser');
  expect(await records(chat)).toMatchObject([{ collection: 'teas', title: 'Sencha', data: { grams: 50 } }]);
});

test('create_record that is not wanted leaves nothing', async ({ world, chat }) => {
  world.model.script(
    calls({ name: 'create_record', input: { collection: 'teas', title: 'Sencha' } }),
    says('As you like.'),
  );
  await chat.say('keep it');
  await chat.press(chat.card('create_record'), "Don't save");
  await chat.hears('As you like.');
  expect(await records(chat)).toEqual([]);
});

test('an attached file reaches the model', async ({ world, chat }) => {
  world.model.script(says('I have read it.'));
  const chooser = chat.page.waitForEvent('filechooser');
  await chat.page.getByRole('button', { name: 'Attach files' }).click();
  await (
    await chooser
  ).setFiles({ name: 'list.txt', mimeType: 'text/plain', buffer: Buffer.from('milk and tea') });
  await expect(chat.page.getByText('list.txt')).toBeVisible();
  await chat.say('read this');
  await chat.hears('I have read it.');
  expect(JSON.stringify(world.model.request(1).messages)).toContain('milk and tea');
});
