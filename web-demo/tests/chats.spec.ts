// What is around a chat: the list, what waits elsewhere, the token that a server may want.

import { calls, expect, FAILED_REQUEST, gate, importHistory, PAGES, park, says, test } from './world';

const NOTE = calls({ name: 'write_note', input: { title: 'Milk', body: 'Two.' } });

test('chats are listed, opened again and gone back from', async ({ world, chat }) => {
  world.model.script(says('Green.'), says('Black.'));
  await chat.say('which tea?');
  await chat.hears('Green.');
  await chat.page.getByRole('button', { name: 'New chat' }).click();
  await expect(chat.log).toBeEmpty();
  await chat.say('which coffee?');
  await chat.hears('Black.');
  await expect(chat.chats.getByRole('listitem')).toHaveText([/^which coffee\?/, /^which tea\?/]);
  await chat.chats.getByRole('link', { name: /^which tea\?/ }).click();
  await chat.hears('Green.');
  await expect(chat.answers).toHaveCount(1);
  await chat.page.goBack();
  await chat.hears('Black.');
});

test('a chat is forgotten, after a question', async ({ world, chat }) => {
  world.model.script(says('Green.'));
  await chat.say('which tea?');
  await chat.hears('Green.');
  const remove = chat.chats.getByRole('button', { name: 'Delete “which tea?”' });
  await remove.click();
  const dialog = chat.page.getByRole('dialog', { name: 'Delete this chat?' });
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await expect(dialog).toBeHidden();
  await remove.click();
  await dialog.getByRole('button', { name: 'Delete' }).click();
  await expect(chat.chats.getByRole('listitem')).toHaveCount(0);
  await expect(chat.log).toBeEmpty();
  await expect(chat.composer).toBeFocused();
  expect((await fetch(`${world.server.url}/api/chat/${chat.id}`)).status).toBe(404);
});

test('what waits in another chat is shown, and leads there', async ({ world, chat }) => {
  world.model.script(NOTE, says('Written.'));
  await chat.say('write it down');
  await chat.isInState(chat.card('write_note'), 'Waiting for you');
  await expect(chat.elsewhere).toHaveCount(0);
  await chat.page.getByRole('button', { name: 'New chat' }).click();
  await chat.elsewhere.getByRole('link', { name: /Write the note .* Needs your approval/ }).click();
  await chat.press(chat.card('write_note'), 'Approve');
  await chat.hears('Written.');
  await expect(chat.elsewhere).toHaveCount(0);
});

test('of many calls that wait elsewhere three are shown, and their number is in the title', async ({
  world,
  chat,
}) => {
  for (let n = 0; n < 5; n += 1) {
    world.model.script(NOTE);
    await chat.say('write it down');
    await chat.isInState(chat.card('write_note'), 'Waiting for you');
    await chat.page.getByRole('button', { name: 'New chat' }).click();
  }
  await expect(chat.elsewhere.getByRole('listitem')).toHaveCount(3);
  await expect(chat.page).toHaveTitle('(5) Fermata');
  await chat.elsewhere.getByRole('button', { name: 'Show 2 more' }).click();
  await expect(chat.elsewhere.getByRole('listitem')).toHaveCount(5);
});

test('a link to a chat that is not there says so, and a new chat that is reloaded does not', async ({
  world,
  chat,
}) => {
  // The browser says of every 404 that it failed to load something.
  world.mayLog(FAILED_REQUEST);
  const unknown = chat.page.getByText('There is no chat at this address.');
  await chat.page.reload();
  await expect(chat.page.getByText("Tools wait for you. Streams don't break.")).toBeVisible();
  await expect(unknown).toHaveCount(0);
  await chat.page.goto(`${chat.page.url().split('?')[0] ?? ''}?chat=deleted-long-ago`);
  await expect(unknown).toBeVisible();
  world.model.script(says('Green.'));
  await chat.say('which tea?');
  await chat.hears('Green.');
  await expect(unknown).toHaveCount(0);
});

test.describe('with a tool that asks', () => {
  test.use({ hand: true });

  test('what a running tool asks in another chat is shown, and leads there', async ({ world, chat }) => {
    world.model.script(calls({ name: 'hand__ask', input: { key: 'Ann' } }), says('Red it is.'));
    await chat.say('order the paint');
    await expect(chat.question).toContainText('Which color, Ann?');
    await chat.page.getByRole('button', { name: 'New chat' }).click();
    await expect(chat.chats.getByRole('listitem')).toContainText('1 wait');
    await chat.elsewhere.getByRole('link', { name: /hand__ask .* “hand” asks you something/ }).click();
    await expect(chat.question).toContainText('Which color, Ann?');
    await chat.press(chat.question, 'Send');
    await chat.hears('Red it is.');
    await expect(chat.elsewhere).toHaveCount(0);
  });
});

for (const { name, path } of PAGES) {
  test.describe(name, () => {
    test.use({ path });

    test('goes through more chats that wait than a browser has connections', async ({ world }) => {
      const names = Array.from({ length: 8 }, (_, place) => `errand ${place + 1}`);
      for (const [place, words] of names.entries()) {
        world.model.script(NOTE);
        await park(world, `waiting-${place}`, words);
      }
      const chat = await world.tab();
      for (const words of names) {
        await chat.chats.getByRole('link', { name: new RegExp(`^${words}`) }).click();
        await expect(chat.words).toHaveText([words]);
        await chat.isInState(chat.card('write_note'), 'Waiting for you');
      }
      world.model.script(says('Written.'));
      await chat.press(chat.card('write_note'), 'Approve');
      await chat.hears('Written.');
    });

    test('sends a message to the chat that is shown, also before it is loaded', async ({ world, chat }) => {
      world.model.script(says('Green.'), says('Black.'));
      await chat.say('which tea?');
      await chat.hears('Green.');
      await chat.isAtRest();
      const loading = gate();
      await chat.page.route(`**/api/chat/${chat.id}?optional=true`, async (route) => {
        await loading.opened;
        await route.continue();
      });
      await chat.reload();
      await expect(chat.page.getByText('Loading the chat…')).toBeVisible();
      await chat.say('which coffee?');
      await chat.hears('Black.');
      loading.open();
      await expect(chat.words).toHaveText(['which tea?', 'which coffee?']);
      await expect(chat.answers).toHaveCount(2);
      await expect(chat.chats.getByRole('link')).toHaveCount(1);
      expect(new URL(chat.page.url()).searchParams.get('chat')).toBe(chat.id);
    });

    test.describe('without summaries', () => {
      test.use({ settings: { FERMATA_SUMMARY_EVERY: '1000' } });

      test('shows the newest messages of a long chat, and the others when one looks for them', async ({
        world,
      }) => {
        const history = Array.from({ length: 150 }, (_, place) => ({
          id: `m${place}`,
          role: place % 2 === 0 ? 'user' : 'assistant',
          parts: [{ type: 'text', text: `number ${place}` }],
        }));
        world.model.script(says('imported'));
        expect(
          await importHistory(world, 'long', [
            ...history,
            { id: 'last', role: 'user', parts: [{ type: 'text', text: 'so?' }] },
          ]),
        ).toBe(200);
        const chat = await world.tab('long');
        await chat.hears('imported');
        await expect(chat.log.getByRole('article')).toHaveCount(60);
        // More come as one scrolls up, or presses the button that is there as long as there are more.
        await expect(async () => {
          await chat.log.getByRole('article').first().scrollIntoViewIfNeeded();
          await expect(chat.log.getByText('number 0', { exact: true })).toBeVisible({ timeout: 500 });
        }).toPass();
        await expect(chat.page.getByRole('button', { name: 'Show earlier messages' })).toHaveCount(0);
        world.model.script(says('All of them.'));
        await chat.say('how many?');
        await chat.hears('All of them.');
        await expect(chat.log.getByRole('article')).toHaveCount(154);
        expect(world.model.requests.at(-1)?.words).toHaveLength(153);
      });
    });
  });
}

test.describe('a server with tokens', () => {
  test.use({
    settings: {
      FERMATA_AUTH: 'token',
      FERMATA_TOKENS: 'ann:the-right-token-of-ann,bob:another-token-of-bob',
    },
  });

  test('asks for one, says so when it is wrong, and goes on with the right one', async ({ world, page }) => {
    world.mayLog(FAILED_REQUEST);
    world.model.script(says('Hello, Ann.'));
    await page.goto(world.server.url);
    const dialog = page.getByRole('dialog', { name: 'This server needs a token' });
    await dialog.getByLabel('Token').fill('wrong-token');
    await dialog.getByRole('button', { name: 'Continue' }).click();
    await expect(dialog.getByRole('alert')).toHaveText('The server did not accept this token.');
    await dialog.getByLabel('Token').fill('the-right-token-of-ann');
    await dialog.getByRole('button', { name: 'Continue' }).click();
    await expect(dialog).toBeHidden();
    await page.getByRole('textbox', { name: 'Message', exact: true }).fill('hello');
    await page.keyboard.press('Enter');
    await expect(page.getByRole('log')).toContainText('Hello, Ann.');
    await page.reload();
    await expect(page.getByRole('log')).toContainText('Hello, Ann.');
    await expect(dialog).toBeHidden();
  });
});

for (const { name, path } of PAGES)
  test.describe(`on ${name}`, () => {
    test.use({ path });

    test('a page whose chat is deleted elsewhere says so, and takes no more messages', async ({
      world,
      chat,
    }) => {
      world.mayLog(FAILED_REQUEST);
      world.model.script(says('Hello.'));
      await chat.say('hello');
      await chat.hears('Hello.');
      await chat.isAtRest();
      const link = chat.chats.getByRole('link', { name: 'hello' });
      await expect(link).toBeVisible();
      const notice = chat.page.getByRole('alert').filter({ hasText: 'This chat was deleted.' });
      // Another device deletes it.
      await fetch(`${world.server.url}/api/chat/${chat.id}`, { method: 'DELETE' });
      await expect(notice).toHaveText(/nothing more can be sent/);
      await chat.say('are you there?');
      await expect(chat.page.getByText('This chat was deleted. Start a new one.')).toBeVisible();
      await expect(chat.composer).toHaveValue('are you there?');
      await notice.getByRole('button', { name: 'New chat' }).click();
      await expect(notice).toHaveCount(0);
      await expect(chat.composer).toHaveValue('');
    });

    test('another tab hears at once that its chat was deleted', async ({ world, chat }) => {
      world.mayLog(FAILED_REQUEST);
      world.model.script(says('Hello.'));
      await chat.say('hello');
      await chat.hears('Hello.');
      await chat.isAtRest();
      const other = await world.tab(chat.id);
      await other.hears('Hello.');
      await chat.chats.getByRole('button', { name: 'Delete “hello”' }).click();
      await chat.page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await expect(other.page.getByText('This chat was deleted.', { exact: false })).toBeVisible();
    });
  });
