// Words that are not sent: drafts, messages that the server does not take, and messages that wait for the network.

import type { Route } from '@playwright/test';
import { calls, ChatPage, expect, FAILED_REQUEST, PAGES, says, test } from './world';

const HTML = '<!doctype html><title>Sign in</title><p>Sign in</p>';
const IN_THE_WAY: [string, Parameters<Route['fulfill']>[0]][] = [
  ['a sign-in page', { status: 200, contentType: 'text/html', body: HTML }],
  ['an empty reply', { status: 200, body: '' }],
  ['JSON of another server', { status: 200, contentType: 'application/json', body: '{"ok":true}' }],
  ['the error page of a proxy', { status: 502, contentType: 'text/html', body: HTML }],
];

const NOTE = { title: 'Tea', body: 'green' };

for (const { name, path } of PAGES)
  test.describe(`on ${name}`, () => {
    test.use({ path });

    test('a draft outlasts another chat, a reload and a closed tab, and is gone once it is sent', async ({
      world,
      chat,
    }) => {
      world.model.script(says('Hello.'), says('Done.'));
      await chat.say('hello');
      await chat.hears('Hello.');
      await chat.isAtRest();
      await chat.composer.fill('half a thought');
      await chat.page.getByRole('button', { name: 'New chat' }).first().click();
      await expect(chat.composer).toHaveValue('');
      await chat.composer.fill('of the new chat');
      await chat.page.goBack();
      await expect(chat.composer).toHaveValue('half a thought');
      await chat.page.goForward();
      await expect(chat.composer).toHaveValue('of the new chat');
      await chat.page.goBack();
      await chat.reload();
      await expect(chat.composer).toHaveValue('half a thought');
      await chat.page.close();
      const again = await world.tab(chat.id);
      await expect(again.composer).toHaveValue('half a thought');
      await again.composer.press('Enter');
      await again.hears('Done.');
      await again.isAtRest();
      await again.reload();
      await expect(again.words).toHaveText(['hello', 'half a thought']);
      await expect(again.composer).toHaveValue('');
    });

    test('two tabs of a chat keep a draft each', async ({ world, chat }) => {
      world.model.script(says('Hello.'));
      await chat.say('hello');
      await chat.hears('Hello.');
      const other = await world.tab(chat.id);
      await chat.composer.fill('of the first tab');
      await other.composer.fill('of the second tab');
      await chat.reload();
      await expect(chat.composer).toHaveValue('of the first tab');
      await other.reload();
      await expect(other.composer).toHaveValue('of the second tab');
    });

    for (const [what, reply] of IN_THE_WAY)
      test(`${what} takes no words away`, async ({ world, chat }) => {
        world.mayLog(FAILED_REQUEST);
        world.model.script(says('Hello.'));
        await chat.page.route(/\/api\/chat(\/|$|\?)/, (route) => route.fulfill(reply));
        await chat.say('hello');
        await expect(chat.composer).toHaveValue('hello');
        await expect(chat.page.getByRole('alert')).toHaveText(/A proxy or a sign-in page answered/);
        await expect(chat.page.locator('body')).not.toContainText('<');
        await chat.page.unroute(/\/api\/chat(\/|$|\?)/);
        await chat.composer.press('Enter');
        await chat.hears('Hello.');
        await expect(chat.words).toHaveText(['hello']);
        await expect(chat.page.getByRole('alert')).toHaveCount(0);
        await expect(chat.composer).toHaveValue('');
      });

    test.describe('with a small limit', () => {
      test.use({ settings: { FERMATA_MAX_BODY: '20KB' } });

      test('a message that is too large comes back, and is not in the way of the next', async ({
        world,
        chat,
      }) => {
        world.mayLog(FAILED_REQUEST);
        world.model.script(says('Short and good.'));
        const long = 'x'.repeat(30_000);
        await chat.say(long);
        await expect(chat.page.getByRole('alert')).toHaveText(/too large for the server/);
        await expect(chat.composer).toHaveValue(long);
        await chat.say('in short');
        await chat.hears('Short and good.');
        await expect(chat.words).toHaveText(['in short']);
        expect(world.model.request(1).words).toEqual(['user: in short']);
      });
    });

    test('a message that is sent offline says that it waits, and is sent once when the network is back', async ({
      world,
      chat,
      context,
    }) => {
      world.mayLog(FAILED_REQUEST);
      world.model.script(says('Hello.'));
      await context.setOffline(true);
      await chat.say('hello');
      await expect(chat.words.getByText(/^Waits for the network/)).toBeVisible();
      await context.setOffline(false);
      await chat.hears('Hello.');
      await expect(chat.words).toHaveText(['hello']);
      await chat.isAtRest();
      expect(world.model.requests).toHaveLength(1);
    });

    test('a message waits for a server that is away, and is a draft if the tab is closed', async ({
      world,
      chat,
    }) => {
      // assistant-ui may load its list of threads meanwhile.
      world.mayLog(FAILED_REQUEST, /thread list load failed/);
      world.model.script(says('Hello.'), says('Done.'));
      await chat.say('hello');
      await chat.hears('Hello.');
      await chat.isAtRest();
      await world.server.end();
      await chat.say('more');
      await expect(chat.words.last().getByText(/^Waits for the network/)).toBeVisible();
      await chat.page.close();
      await world.server.start();
      const again = await world.tab(chat.id);
      await expect(again.words).toHaveText(['hello']);
      await expect(again.composer).toHaveValue('more');
      await again.composer.press('Enter');
      await again.hears('Done.');
      await expect(again.words).toHaveText(['hello', 'more']);
    });

    test.describe('a short reply while a call waits', () => {
      const ask = async ({ page }: ChatPage) => {
        const dialog = page.getByRole('dialog', { name: 'Approve, deny, or send as a message?' });
        await expect(dialog).toBeVisible();
        return dialog;
      };

      test('can approve, and Escape keeps the words', async ({ world, chat }) => {
        world.model.script(calls({ name: 'write_note', input: NOTE }), says('Written.'));
        await chat.say('write');
        const card = chat.card('write_note');
        await chat.isInState(card, 'Waiting for you');
        await chat.say('sounds good');
        await ask(chat);
        // Enter once more decides nothing.
        await chat.page.keyboard.press('Enter');
        await ask(chat);
        await chat.page.keyboard.press('Escape');
        await expect(chat.composer).toHaveValue('sounds good');
        await expect(chat.composer).toBeFocused();
        await chat.isInState(card, 'Waiting for you');
        await chat.send.click();
        await (await ask(chat)).getByRole('button', { name: 'Approve' }).click();
        await chat.hears('Written.');
        await expect(chat.words).toHaveText(['write']);
        await expect(chat.composer).toHaveValue('');
      });

      test('can deny, and is the reason', async ({ world, chat }) => {
        world.model.script(calls({ name: 'write_note', input: NOTE }), says('Not written.'));
        await chat.say('write');
        await chat.isInState(chat.card('write_note'), 'Waiting for you');
        await chat.say('not today');
        await (await ask(chat)).getByRole('button', { name: 'Deny' }).click();
        await chat.hears('Not written.');
        await chat.isInState(chat.card('write_note'), 'Denied');
        await expect(chat.card('write_note')).toContainText('Because: not today');
      });

      test('can be a message', async ({ world, chat }) => {
        world.model.script(calls({ name: 'write_note', input: NOTE }), says('Very well.'));
        await chat.say('write');
        await chat.isInState(chat.card('write_note'), 'Waiting for you');
        await chat.say('tell me more');
        await (await ask(chat)).getByRole('button', { name: 'Send as a message' }).click();
        await chat.hears('Very well.');
        await expect(chat.words).toHaveText(['write', 'tell me more']);
        await chat.isInState(chat.card('write_note'), 'Cancelled');
        await expect(chat.composer).toHaveValue('');
      });

      test('is not asked about if it is a word of consent, a question or longer', async ({ world, chat }) => {
        for (const words of [
          'go ahead',
          'why do you want that?',
          'first tell me what the note will say, please',
        ]) {
          world.model.script(calls({ name: 'write_note', input: NOTE }), says(`Heard: ${words}`));
          await chat.say('write');
          await chat.isInState(chat.card('write_note').last(), 'Waiting for you');
          await chat.say(words);
          await chat.hears(`Heard: ${words}`);
          await chat.isAtRest();
        }
      });
    });
  });
