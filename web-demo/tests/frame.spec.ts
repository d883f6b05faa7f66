// What surrounds the messages: that the page itself never scrolls, what the list says of a chat, what is suggested, where the cursor is.

import { readFile } from 'node:fs/promises';
import type { Page } from '@playwright/test';
import {
  calls,
  ChatPage,
  expect,
  FAILED_REQUEST,
  gate,
  importHistory,
  PAGES,
  park,
  says,
  seriousViolations,
  test,
} from './world';

/** Also run in Firefox: what engines do differently. */
const ENGINE = { tag: '@engine' };

const AT = new Date(0).toISOString();

/** Has the list show these chats, and what waits in them. */
async function list(page: Page, listed: { id: string; title: string; pending?: number }[]) {
  const chats = listed.map((chat) => ({ createdAt: AT, updatedAt: AT, open: false, pending: 0, ...chat }));
  await page.route('**/api/chats?*', (route) => route.fulfill({ json: { chats } }));
  await page.route(/\/api\/chat\/listed-\d+\/pending/, (route) => {
    const call = { id: 'call', toolCallId: 'call', kind: 'approval', tool: 'refund', input: {} };
    return route.fulfill({ json: { pending: [{ ...call, state: 'waiting', since: AT }] } });
  });
}

const overflow = ({ page }: ChatPage) =>
  page.evaluate(() => document.documentElement.scrollHeight - innerHeight);

for (const { name, path } of PAGES)
  test.describe(`on ${name}`, () => {
    test.use({ path });

    test.describe('with the demo model', () => {
      test.use({ demoModel: true });

      test(
        'only the lists scroll, however long they are, and never the page',
        ENGINE,
        async ({ world, page }) => {
          await park(world, 'parked', 'write a note: buy milk');
          const chats = Array.from({ length: 30 }, (_, at) => ({
            id: `listed-${at}`,
            title: `Chat ${at}`,
            pending: at < 5 ? 1 : 0,
          }));
          await list(page, chats);
          const chat = await ChatPage.open(page, world.server.url, path, 'parked');
          await expect(chat.chats.getByRole('link')).toHaveCount(30);
          await chat.isInState(chat.card('write_note'), 'Waiting for you');
          const scroller = chat.chats.locator('xpath=..');
          expect(await scroller.evaluate((element) => element.scrollHeight > element.clientHeight)).toBe(
            true,
          );
          // A long answer, and a difference with texts for screen readers at its end.
          await chat.page.setViewportSize({ width: 1280, height: 320 });
          expect(await overflow(chat)).toBe(0);
        },
      );

      test('one button leads to all settings, and the focus comes back to it', async ({ chat }) => {
        const settings = await chat.settings();
        for (const name of ['Language', 'Theme'])
          await expect(settings.getByRole('group', { name })).toBeVisible();
        await expect(
          settings.getByRole('switch', { name: 'Notify me when something waits for me' }),
        ).toBeVisible();
        await expect(settings.getByRole('button', { name: 'Manage memories' })).toBeVisible();
        await expect(settings.getByRole('navigation', { name: 'Page' }).getByRole('link')).toHaveText([
          'useChat',
          'assistant-ui',
          'With curl',
        ]);
        expect(await seriousViolations(chat.page)).toEqual([]);
        await chat.page.keyboard.press('Escape');
        await expect(chat.page.getByRole('button', { name: 'Settings' })).toBeFocused();
        await expect(chat.page.getByRole('complementary').locator('footer').getByRole('button')).toHaveCount(
          1,
        );
      });

      test('a dialog is as high as its content', async ({ chat }) => {
        const settings = await chat.settings();
        await settings.getByRole('button', { name: 'Manage memories' }).click();
        const dialog = chat.page.getByRole('dialog', { name: 'Memories', exact: true });
        await expect(dialog).toContainText('Nothing is remembered yet.');
        const room = await dialog.evaluate(
          (element) =>
            element.getBoundingClientRect().bottom -
            (element.querySelector('ul')?.getBoundingClientRect().bottom ?? 0),
        );
        expect(room).toBeGreaterThan(0);
        expect(room).toBeLessThan(60);
      });

      test('a small window shows the greeting from its beginning', async ({ chat }) => {
        await chat.page.setViewportSize({ width: 320, height: 480 });
        await expect(chat.page.getByRole('group', { name: 'Suggestions' })).toBeAttached();
        await expect(chat.page.getByRole('heading', { level: 2 })).toBeInViewport({ ratio: 1 });
      });

      test('suggests what the demo model understands', async ({ chat }) => {
        await expect(
          chat.page.getByRole('group', { name: 'Suggestions' }).getByRole('button'),
        ).not.toHaveCount(0);
      });
    });

    test('suggests nothing of the demo to another model', async ({ chat }) => {
      const isLoaded = () =>
        chat.page.evaluate(() =>
          performance
            .getEntriesByType('resource')
            .some(
              (one) =>
                one.name.endsWith('/api/assistants') && (one as PerformanceResourceTiming).responseEnd > 0,
            ),
        );
      await expect.poll(isLoaded).toBe(true);
      await expect(chat.page.getByRole('heading', { level: 2 })).toBeVisible();
      await expect(chat.page.getByRole('group', { name: 'Suggestions' })).toBeHidden();
      await expect(chat.page.getByText('Try one of these')).toBeHidden();
    });

    test('a chat is waiting as long as something waits in it, whether or not its run is open', async ({
      world,
      page,
    }) => {
      await list(page, [
        { id: 'listed-1', title: 'A parked chat', pending: 1 },
        { id: 'listed-2', title: 'A finished chat' },
      ]);
      await page.goto(`${world.server.url}${path}`);
      const chats = page.getByRole('navigation', { name: 'Chats' });
      await expect(chats.getByRole('link', { name: /A parked chat/ })).toContainText('Waiting');
      await expect(chats.getByRole('link', { name: /A finished chat/ })).not.toContainText('Waiting');
      // What waits does not push the button away that begins a chat.
      const elsewhere = page.getByRole('region', { name: 'Waiting in other chats' });
      const [button, waiting] = [page.getByRole('button', { name: 'New chat', exact: true }), elsewhere];
      await expect(waiting).toBeVisible();
      expect((await button.boundingBox())?.y).toBeLessThan((await waiting.boundingBox())?.y ?? 0);
    });

    test('the top says which chat this is, and how the connection is, in words', async ({ world, chat }) => {
      const title = chat.page.getByRole('heading', { level: 1 });
      const word = chat.page.locator('[data-connection]');
      await expect(title).toHaveText('New chat');
      await expect(word).toHaveText('Idle');
      const writing = gate();
      world.model.script(async (pen) => {
        await writing.opened;
        pen.says('Green.');
      });
      await chat.say('which tea?');
      await expect(title).toHaveText('which tea?');
      await expect(word).toHaveText('Connected');
      writing.open();
      await chat.hears('Green.');
    });

    test('the top says who answers, and exports the chat as Markdown and as JSON', async ({
      world,
      chat,
    }) => {
      const { page } = chat;
      await expect(page.getByRole('main').locator('header').first()).toContainText('test-model');
      await expect(page.getByRole('button', { name: 'Export this chat' })).toBeHidden();
      world.model.script(says('**Green** tea.'));
      await chat.say('which tea?');
      await chat.hears('Green tea.');
      await chat.isAtRest();
      const saved = async (form: string) => {
        await page.getByRole('button', { name: 'Export this chat' }).click();
        const menu = page.getByRole('group', { name: 'Export this chat' });
        expect(await seriousViolations(page)).toEqual([]);
        const [download] = await Promise.all([
          page.waitForEvent('download'),
          menu.getByRole('button', { name: form }).click(),
        ]);
        await expect(menu).toBeHidden();
        return { name: download.suggestedFilename(), text: await readFile(await download.path(), 'utf8') };
      };
      const markdown = await saved('Markdown');
      expect(markdown.name).toBe('which tea.md');
      expect(markdown.text).toContain('## You\n\nwhich tea?\n\n## Assistant\n\n**Green** tea.\n');
      const json = await saved('JSON');
      expect(json.name).toBe('which tea.json');
      expect(JSON.parse(json.text)).toMatchObject({
        title: 'which tea?',
        id: chat.id,
        messages: [{ role: 'user' }, { role: 'assistant' }],
      });
    });

    test('each chat of the list is one stop of the Tab key, where Delete deletes it', async ({
      world,
      page,
    }) => {
      await list(page, [
        { id: 'listed-1', title: 'One' },
        { id: 'listed-2', title: 'Two' },
        { id: 'listed-3', title: 'Three' },
      ]);
      await page.goto(`${world.server.url}${path}`);
      const link = (title: string) =>
        page.getByRole('navigation', { name: 'Chats' }).getByRole('link', { name: new RegExp(`^${title}`) });
      await link('One').focus();
      for (const title of ['Two', 'Three']) {
        await page.keyboard.press('Tab');
        await expect(link(title)).toBeFocused();
      }
      const button = page.getByRole('button', { name: 'Delete “Three”' });
      await expect(button).toHaveCSS('opacity', '1');
      await page.keyboard.press('Delete');
      const dialog = page.getByRole('dialog', { name: 'Delete this chat?' });
      await expect(dialog).toContainText('“Three”');
      await page.keyboard.press('Escape');
      await expect(link('Three')).toBeFocused();
      await page.keyboard.press('Delete');
      await page.route('**/api/chat/listed-3', (route) => route.fulfill({ status: 204 }));
      await list(page, [
        { id: 'listed-1', title: 'One' },
        { id: 'listed-2', title: 'Two' },
      ]);
      await dialog.getByRole('button', { name: 'Delete' }).press('Enter');
      await expect(dialog).toBeHidden();
      await expect(link('Two')).toBeFocused();
    });

    test('a chat that the list does not have is not called a new one', async ({ world, page }) => {
      world.model.script(says('Green.'));
      await importHistory(world, 'old', [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'tea?' }] }]);
      await list(page, [{ id: 'listed-1', title: 'One' }]);
      const chat = await ChatPage.open(page, world.server.url, path, 'old');
      await expect(chat.words).toHaveText('tea?');
      await expect(page.getByRole('heading', { level: 1 })).toHaveText('Fermata');
    });

    test.describe('where a stream does not wait for a person', () => {
      test.use({ config: 'hold = "0s"\n' });

      test('an answer is announced once, when it is finished', async ({ world, chat }) => {
        const { page } = chat;
        const finished = 'The answer is finished.';
        await page.evaluate(() => {
          const announced: string[] = [];
          const note = ({ target }: MutationRecord) => {
            const element = target instanceof Element ? target : target.parentElement;
            const region = element?.closest('[role=status], [role=alert], [role=log], [aria-live]');
            if (region && region.getAttribute('aria-live') !== 'off') announced.push(region.textContent);
          };
          new MutationObserver((records) => {
            records.forEach(note);
          }).observe(document.body, { subtree: true, childList: true, characterData: true });
          Object.assign(globalThis, { announced });
        });
        const announced = () =>
          page.evaluate(() => (globalThis as unknown as { announced: string[] }).announced);
        const pieces = Array.from({ length: 40 }, (_, at) => `word ${at} `);
        world.model.script(calls({ name: 'write_note', input: { title: 'Tea', body: 'Green.' } }), (pen) => {
          for (const piece of pieces) pen.says(piece);
        });
        await chat.say('write it down');
        await chat.isInState(chat.card('write_note'), 'Waiting for you');
        await expect(page.locator('[data-connection]')).toHaveText('Idle');
        expect(await announced()).not.toContain(finished);
        await chat.press(chat.card('write_note'), 'Approve');
        await chat.hears('word 39');
        await chat.isAtRest();
        await expect.poll(announced).toContain(finished);
        expect((await announced()).filter((words) => words === finished)).toHaveLength(1);
        expect((await announced()).filter((words) => /word \d/.test(words))).toEqual([]);
      });
    });

    test('a new chat has the cursor where one writes', ENGINE, async ({ chat }) => {
      await expect(chat.composer).toBeFocused();
      await chat.page.getByRole('button', { name: 'New chat', exact: true }).click();
      await expect(chat.composer).toBeFocused();
    });

    test('the Enter that ends a word of an input method sends nothing', ENGINE, async ({ world, chat }) => {
      world.model.script(says('Hello.'), says('Hello again.'));
      /** The order of Safari: the composition has ended when the key is reported. */
      const endWord = (field: typeof chat.composer) =>
        field.evaluate((element) => {
          element.dispatchEvent(new CompositionEvent('compositionstart', { bubbles: true }));
          element.dispatchEvent(new CompositionEvent('compositionend', { bubbles: true, data: '你好' }));
          const key = { key: 'Enter', code: 'Enter', keyCode: 229, bubbles: true, cancelable: true };
          element.dispatchEvent(new KeyboardEvent('keydown', key));
        });
      await chat.composer.fill('你好');
      await endWord(chat.composer);
      await expect(chat.composer).toHaveValue('你好');
      await chat.composer.press('Enter');
      await chat.hears('Hello.');
      await chat.isAtRest();
      expect(world.model.requests).toHaveLength(1);
      await chat.words.last().hover();
      await chat.page.getByRole('button', { name: 'Edit message' }).click();
      const editor = chat.page.getByRole('textbox', { name: 'Edit your message' });
      await editor.fill('再见');
      await endWord(editor);
      await expect(editor).toHaveValue('再见');
      await chat.page.getByRole('button', { name: 'Send edited message' }).click();
      await chat.hears('Hello again.');
      expect(world.model.requests).toHaveLength(2);
    });

    test('a message that was not sent says so in the words of the page', ENGINE, async ({ world, chat }) => {
      world.mayLog(FAILED_REQUEST);
      await chat.page.route('**/api/chat', (route) => route.abort());
      await chat.say('hello');
      await expect(chat.page.getByRole('alert')).toContainText(
        'The server could not be reached. Nothing is lost: try again.',
      );
      await chat.set('中文');
      await expect(chat.page.getByRole('alert')).toContainText('无法连接服务器');
    });

    test.describe('in the tools menu', () => {
      for (const width of [390, 1280])
        test(`every choice can be read at a width of ${width}`, async ({ chat }) => {
          await chat.page.setViewportSize({ width, height: 800 });
          await chat.page.getByRole('button', { name: 'Tools' }).click();
          const menu = chat.page.getByRole('group', { name: 'Tools' });
          await expect(menu.getByRole('button', { name: /^search_notes/ })).toBeVisible();
          await expect(menu.getByText('Any tool', { exact: true })).toBeVisible();
          const cut = await menu.evaluate((element) =>
            [element, ...element.querySelectorAll('*')]
              .filter(
                (one) => one.clientWidth > 0 && one.scrollWidth > one.clientWidth && !one.matches('.sr-only'),
              )
              .map((one) => one.outerHTML),
          );
          expect(cut).toEqual([]);
        });

      test('arrows go from choice to choice', async ({ chat }) => {
        const { keyboard } = chat.page;
        await chat.page.getByRole('button', { name: 'Tools' }).focus();
        await keyboard.press('ArrowDown');
        const menu = chat.page.getByRole('group', { name: 'Tools' });
        await expect(menu.getByRole('button', { name: /^search_notes/ })).toBeVisible();
        await expect(menu.getByRole('button', { name: 'Automatic' })).toBeFocused();
        await keyboard.press('ArrowDown');
        await expect(menu.getByRole('button', { name: 'No tools' })).toBeFocused();
        await keyboard.press('ArrowUp');
        await keyboard.press('ArrowUp');
        await expect(menu.locator('[data-choice]').last().getByRole('button').first()).toBeFocused();
        await keyboard.press('Home');
        await expect(menu.getByRole('button', { name: 'Automatic' })).toBeFocused();
      });
    });
  });

test('the page for curl has the look of the others', async ({ world, page }) => {
  const look = () =>
    page.evaluate(() => {
      const sign = [...document.querySelectorAll('svg')].find((one) => one.querySelector('circle') !== null);
      const name = [...document.querySelectorAll('h1, p')].find((one) => one.textContent === 'Fermata');
      const backgrounds = [document.querySelector('main')?.parentElement, document.body].flatMap((one) =>
        one ? [getComputedStyle(one).backgroundColor] : [],
      );
      return {
        drawing: sign?.querySelector('path')?.getAttribute('d'),
        colour: sign && getComputedStyle(sign).color,
        font: name && getComputedStyle(name).fontFamily.replaceAll('"', "'"),
        paper: backgrounds.find((one) => one !== 'rgba(0, 0, 0, 0)'),
      };
    });
  await page.goto(world.server.url);
  await expect(page.getByText('Fermata', { exact: true }).first()).toBeVisible();
  const ofDemo = await look();
  await page.goto(`${world.server.url}/curl`);
  expect(await look()).toEqual(ofDemo);
});
