// Tool calls as cards: their states, input, live output, duration and result; the questions whether they may
// run.

import { calls, expect, PAGES, FAILED_REQUEST, journal, letGo, says, test, times } from './world';

const NOTE = { title: 'Milk', body: 'Buy two litres.' };
const writeNote = (id: string, input: object = NOTE) => calls({ name: 'write_note', input, id });

test.describe('a call of the server', () => {
  test('shows its input, result and duration', async ({ world, chat }) => {
    world.model.script(calls({ name: 'search_notes', input: { query: 'milk' } }), says('No notes.'));
    await chat.say('search');
    const card = chat.card('search_notes');
    await chat.isInState(card, 'Done');
    await expect(card).toContainText(/Done · \d+(\.\d+)? m?s/);
    await chat.unfold(card);
    await expect(card).toContainText('milk');
    await expect(card).toContainText('Result');
    await chat.hears('No notes.');
  });

  test('that fails says why', async ({ world, chat }) => {
    world.model.script(calls({ name: 'current_time', input: { timezone: 'Mars/Olympus' } }), says('Sorry.'));
    await chat.say('what time is it on Mars?');
    const card = chat.card('current_time');
    await chat.isInState(card, 'Failed: the input or the output did not fit');
    await expect(card).toContainText('Mars/Olympus');
    await chat.hears('Sorry.');
  });
});

test.describe('a call of an MCP server', () => {
  test.use({ hand: true });

  test('shows its live output while it runs, then its result', async ({ world, chat }) => {
    world.model.script(calls({ name: 'hand__report', input: {} }), says('Three rows.'));
    await chat.say('report');
    const card = chat.card('hand__report');
    await expect(card.getByRole('progressbar', { name: 'started' })).toBeVisible();
    await chat.isInState(card, 'Running');
    letGo(world.server, 'report');
    await chat.isInState(card, 'Done');
    await expect(card.getByRole('progressbar')).toHaveCount(0);
    await chat.unfold(card);
    await expect(card).toContainText('done');
    await chat.hears('Three rows.');
  });

  test('is edited in a form, and runs once with the edited input', async ({ world, chat }) => {
    world.model.script(calls({ name: 'hand__change', input: { key: 'red' } }), says('Changed.'));
    await chat.say('change');
    const card = chat.card('hand__change');
    await chat.press(card, 'Edit');
    await card.getByRole('textbox', { name: /key/i }).fill('green');
    await chat.press(card, 'Approve with these changes');
    await chat.isInState(card, 'Done');
    await chat.hears('Changed.');
    expect(journal(world.server).filter(({ event }) => event === 'changed')).toEqual([
      { event: 'changed', about: 'green' },
    ]);
    await chat.unfold(card);
    await expect(card).toContainText('green');
  });

  test('is shown as it would be, while it is edited', async ({ world, chat }) => {
    const note = { title: 'Milk', body: 'one\ntwo' };
    world.model.script(calls({ name: 'write_note', input: note }), says('Written.'));
    await chat.say('write');
    const card = chat.card('write_note');
    await chat.press(card, 'Edit');
    const difference = card.getByRole('group').getByRole('figure');
    await expect(difference).toContainText('two');
    await card.getByRole('textbox', { name: /body/i }).fill('one\nthree');
    await expect(difference).toContainText('three');
    await expect(difference).not.toContainText('two');
    await chat.press(card, 'Approve with these changes');
    await chat.hears('Written.');
  });

  test('asks the person, and is told the answer', async ({ world, chat }) => {
    world.model.script(calls({ name: 'hand__ask', input: { key: 'Ann' } }), says('Blue it is.'));
    await chat.say('ask me');
    await expect(chat.question.getByRole('heading')).toHaveText('The MCP server “hand” asks:');
    await expect(chat.question.getByRole('blockquote')).toHaveText('Which color, Ann?');
    await expect(chat.question).toContainText('Waiting for you');
    await chat.question.getByRole('combobox').selectOption({ label: 'blue' });
    await chat.press(chat.question, 'Send');
    await expect(chat.question).toContainText('You answered');
    await chat.hears('Blue it is.');
    expect(world.model.request(2).results[0]?.text).toContain('"color":"blue"');
  });

  test('asks the person, who declines', async ({ world, chat }) => {
    world.model.script(calls({ name: 'hand__ask', input: { key: 'Ann' } }), says('As you like.'));
    await chat.say('ask me');
    await chat.press(chat.question, 'Decline');
    await expect(chat.question).toContainText('You declined');
    await chat.hears('As you like.');
    expect(world.model.request(2).results[0]?.text).toContain('"action":"decline"');
  });
});

test.describe('calls on one resource', () => {
  test.use({ hand: true, config: '[tools."hand__*"]\nresource = "the desk"\n' });

  test('wait their turn', async ({ world, chat }) => {
    world.model.script(
      calls(
        { name: 'hand__work', input: { key: 'one' }, id: 'one' },
        { name: 'hand__work', input: { key: 'two' }, id: 'two' },
      ),
      says('Both done.'),
    );
    await chat.say('work twice');
    const [first, second] = [chat.card('hand__work').first(), chat.card('hand__work').last()];
    await chat.isInState(first, 'Running');
    await chat.isInState(second, 'Waiting for the desk');
    letGo(world.server, 'one');
    await chat.isInState(second, 'Running');
    letGo(world.server, 'two');
    await chat.hears('Both done.');
  });
});

test.describe('a call that waits for a decision', () => {
  test('is approved, and runs', async ({ world, chat }) => {
    world.model.script(writeNote('note'), says('Written.'));
    await chat.say('write it down');
    const card = chat.card('write_note');
    await chat.isInState(card, 'Waiting for you');
    await expect(card).toContainText(NOTE.body);
    await chat.press(card, 'Approve');
    await chat.isInState(card, 'Done');
    await chat.hears('Written.');
    expect(world.model.request(2).results[0]?.text).toContain('Milk');
  });

  test('is approved for always, and the next is not asked', async ({ world, chat }) => {
    world.model.script(
      writeNote('one'),
      says('Written.'),
      writeNote('two', { title: 'Tea', body: 'Green.' }),
      says('Also written.'),
    );
    await chat.say('write it down');
    await chat.press(chat.card('write_note'), 'Always allow');
    await chat.press(chat.card('write_note'), 'Always in this chat: every call of write_note');
    await chat.hears('Written.');
    await chat.isAtRest();
    await chat.say('and tea');
    await chat.hears('Also written.');
    await chat.isInState(chat.card('write_note').last(), 'Done');
  });

  test('is denied with a reason, which the model is told', async ({ world, chat }) => {
    world.model.script(writeNote('note'), says('Then not.'));
    await chat.say('write it down');
    const card = chat.card('write_note');
    await chat.press(card, 'Deny');
    await card.getByRole('textbox', { name: /^Why not/ }).fill('I have milk.');
    await chat.press(card, 'Deny');
    await chat.isInState(card, 'Denied');
    await chat.hears('Then not.');
    expect(world.model.request(2).results[0]?.text).toContain('I have milk.');
    await expect(card).toContainText('Because: I have milk.');
  });

  test('is edited in a form made from its schema', async ({ world, chat }) => {
    world.model.script(writeNote('note'), says('Written.'));
    await chat.say('write it down');
    const card = chat.card('write_note');
    await chat.press(card, 'Edit');
    const title = card.getByRole('textbox', { name: /^title/i });
    await expect(title).toHaveValue(NOTE.title);
    await title.fill('Oat milk');
    await chat.press(card, 'Approve with these changes');
    await chat.isInState(card, 'Done');
    await chat.hears('Written.');
    expect(world.model.request(2).calls[0]?.input).toEqual({ ...NOTE, title: 'Oat milk' });
  });

  test('is edited as JSON, and only JSON that fits is sent', async ({ world, chat }) => {
    world.model.script(writeNote('note'), says('Written.'));
    await chat.say('write it down');
    const card = chat.card('write_note');
    await chat.press(card, 'Edit');
    await chat.press(card, 'JSON');
    const json = card.getByRole('textbox');
    await expect(json).toHaveValue(/"Milk"/);
    await json.fill('{"title": "Rice milk"');
    await chat.press(card, 'Approve with these changes');
    await expect(card.getByRole('alert')).toBeVisible();
    await json.fill('{"title": "Rice milk"}');
    await chat.press(card, 'Approve with these changes');
    await expect(card.getByRole('alert')).toBeVisible();
    await json.fill('{"title": "Rice milk", "body": "One."}');
    await chat.press(card, 'Approve with these changes');
    await chat.isInState(card, 'Done');
    await chat.hears('Written.');
    expect(world.model.request(2).calls[0]?.input).toEqual({ title: 'Rice milk', body: 'One.' });
  });

  test.describe('under a policy', () => {
    test.use({
      config:
        '[[policy]]\ntool = "write_note"\ninput = { title = "*secret*" }\ndecision = "deny"\nreason ' +
        '= "No secrets in notes."\n',
    });

    test('keeps waiting, and says why, where the server refuses an edit', async ({ world, chat }) => {
      world.mayLog(FAILED_REQUEST);
      world.model.script(writeNote('note'), says('Written.'));
      await chat.say('write it down');
      const card = chat.card('write_note');
      await chat.press(card, 'Edit');
      const title = card.getByRole('textbox', { name: /^title/i });
      await title.fill('a secret');
      await chat.press(card, 'Approve with these changes');
      await expect(card.getByRole('alert')).toContainText('No secrets in notes.');
      await chat.isInState(card, 'Waiting for you');
      await title.fill('no such thing');
      await chat.press(card, 'Approve with these changes');
      await chat.isInState(card, 'Done');
      await chat.hears('Written.');
    });

    test('is denied at once where a rule denies it', async ({ world, chat }) => {
      world.model.script(writeNote('note', { title: 'a secret', body: '.' }), says('I may not.'));
      await chat.say('write it down');
      await chat.isInState(chat.card('write_note'), 'Denied');
      await chat.hears('I may not.');
      expect(world.model.request(2).results[0]?.text).toContain('No secrets in notes.');
    });
  });
});

test.describe('the gate', () => {
  test.use({ hand: true });

  test('counts the decisions, and nothing runs before the last', async ({ world, chat }) => {
    const change = (key: string) => ({ name: 'hand__change', input: { key }, id: key });
    world.model.script(calls(change('one'), change('two'), change('three')), says('All done.'));
    await chat.say('change three things');
    const card = (place: number) => chat.card('hand__change').nth(place);
    await expect(chat.gate).toContainText('3 decisions left');
    await chat.press(card(0), 'Approve');
    await expect(chat.gate).toContainText('2 decisions left');
    await chat.isInState(card(0), 'Waiting for the other calls of this step');
    await chat.press(card(1), 'Approve');
    await expect(chat.gate).toContainText('1 decision left');
    expect(times(world.server, 'changed')).toBe(0);
    await chat.press(card(2), 'Deny');
    await chat.press(card(2), 'Deny');
    await chat.hears('All done.');
    await chat.isInState(card(0), 'Done');
    await chat.isInState(card(1), 'Done');
    await chat.isInState(card(2), 'Denied');
    expect(times(world.server, 'changed')).toBe(2);
  });

  test('holds back what needs no decision, in this page, too', async ({ world, chat, context }) => {
    await context.grantPermissions(['geolocation']);
    await context.setGeolocation({ latitude: 52.5, longitude: 13.4 });
    world.model.script(
      calls(
        { name: 'hand__change', input: { key: 'one' }, id: 'one' },
        { name: 'hand__look', input: { key: 'two' }, id: 'two' },
        { name: 'get_location', input: {}, id: 'three' },
      ),
      says('All done.'),
    );
    await chat.say('change one thing, look at another, and say where I am');
    await expect(chat.gate).toContainText('1 decision left');
    await chat.isInState(chat.card('hand__look'), 'Waiting for the other calls of this step');
    await chat.isInState(chat.card('get_location'), 'Waiting for the other calls of this step');
    await chat.press(chat.card('hand__change'), 'Approve');
    await chat.hears('All done.');
    for (const tool of ['hand__change', 'hand__look', 'get_location'])
      await chat.isInState(chat.card(tool), 'Done');
  });

  test('is decided as a whole', async ({ world, chat }) => {
    const change = (key: string) => ({ name: 'hand__change', input: { key }, id: key });
    world.model.script(calls(change('one'), change('two')), says('All done.'));
    await chat.say('change two things');
    await chat.press(chat.log, 'Approve all');
    await chat.hears('All done.');
    expect(times(world.server, 'changed')).toBe(2);
  });
});

for (const { name, path } of PAGES) {
  test.describe(`on ${name}`, () => {
    test.use({
      path,
      config:
        '[[policy]]\ntool = "write_note"\ninput = { title = "*salary*" }\ndecision = "ask"\nreason = ' +
        '"Salaries are not for notes."\n',
    });

    test('the reason of a rule that asks is on the card, and where it waits', async ({ world, chat }) => {
      world.model.script(writeNote('note', { title: 'the salary of Bob', body: '.' }));
      await chat.say('write it down');
      await expect(chat.card('write_note')).toContainText('Why this is asked: Salaries are not for notes.');
      const other = await world.tab();
      await expect(other.elsewhere).toContainText('Salaries are not for notes.');
    });

    test('what is allowed for always is listed, and can be taken back', async ({ world, chat }) => {
      world.model.script(
        writeNote('one'),
        says('Written.'),
        writeNote('two', { title: 'Tea', body: 'Green.' }),
        says('Also written.'),
      );
      await chat.say('write it down');
      await chat.press(chat.card('write_note'), 'Always allow');
      await chat.press(chat.card('write_note'), 'Always in this chat: every call of write_note');
      await chat.hears('Written.');
      await chat.isAtRest();
      await chat.page.getByRole('button', { name: 'Tools', exact: true }).click();
      const grants = chat.page.getByRole('region', { name: 'Always allowed' });
      await expect(grants).toContainText('write_note');
      await grants.getByRole('button', { name: 'Ask again about write_note' }).click();
      await expect(grants).toBeHidden();
      await chat.page.keyboard.press('Escape');
      await chat.say('and tea');
      await chat.isInState(chat.card('write_note').last(), 'Waiting for you');
      await chat.press(chat.card('write_note').last(), 'Approve');
      await chat.hears('Also written.');
    });
  });
}
