// Language, theme, keyboard, phone; and that axe finds nothing serious in any of them.

import { calls, expect, PAGES, says, seriousViolations, test, type ChatPage, type World } from './world';

const NOTE = { name: 'write_note', input: { title: 'Milk', body: 'Two litres.' } };

/** A chat with an answer of every kind, and the edit form of a waiting call open. */
async function parked(world: World, chat: ChatPage) {
  world.model.script((pen) => {
    pen.reasons('Milk is out.');
    pen.says('## A note\n\nI would **write** this:\n\n```js\nlet milk = 2;\n```\n');
    pen.calls(NOTE);
  });
  await chat.say('write it down');
  await chat.isInState(chat.card('write_note'), 'Waiting for you');
  await chat.press(chat.card('write_note'), 'Edit');
  await expect(chat.card('write_note').getByRole('textbox', { name: /^title/i })).toBeVisible();
}

async function finished(world: World, chat: ChatPage) {
  world.model.knows = ['reasoning_content'];
  world.model.script((pen) => {
    pen.reasons('Green or black?');
    pen.says('# Tea\n\n[Green](https://example.org/).\n\n| a | b |\n| - | - |\n| 1 | 2 |\n');
    pen.calls({ name: 'current_time', input: {} });
  }, says('That is all.'));
  await chat.say('which tea?');
  await chat.hears('That is all.');
  await chat.isAtRest();
}

for (const { name, path } of PAGES) {
  test.describe(`axe finds nothing serious on ${name}`, () => {
    test.use({ path });

    test('when it is empty', async ({ chat }) => {
      expect(await seriousViolations(chat.page)).toEqual([]);
    });

    test('when an answer is finished', async ({ world, chat }) => {
      await finished(world, chat);
      expect(await seriousViolations(chat.page)).toEqual([]);
    });

    test('when a call waits, with its form open', async ({ world, chat }) => {
      await parked(world, chat);
      expect(await seriousViolations(chat.page)).toEqual([]);
    });

    test('when it is dark', async ({ world, chat }) => {
      await chat.set('Dark');
      await parked(world, chat);
      expect(await seriousViolations(chat.page)).toEqual([]);
    });

    test('when it is Chinese', async ({ world, chat }) => {
      await parked(world, chat);
      await chat.set('中文');
      await expect(chat.page.getByRole('log', { name: '消息' })).toBeVisible();
      expect(await seriousViolations(chat.page)).toEqual([]);
    });

    test.describe('', () => {
      test.use({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });

      test('when it is on a phone', async ({ world, chat }) => {
        await parked(world, chat);
        expect(await seriousViolations(chat.page)).toEqual([]);
      });
    });
  });
}

test('the page speaks Chinese when it is asked to, and still does after a reload', async ({
  world,
  chat,
}) => {
  await chat.set('中文');
  await expect(chat.page.locator('html')).toHaveAttribute('lang', 'zh-CN');
  await chat.page.reload();
  await expect(chat.page.locator('html')).toHaveAttribute('lang', 'zh-CN');
  world.model.script(calls(NOTE), says('写好了。'));
  const composer = chat.page.getByRole('textbox').last();
  await composer.fill('记下来');
  await composer.press('Enter');
  await chat.page.getByRole('button', { name: '批准', exact: true }).click();
  await expect(chat.page.getByRole('log')).toContainText('写好了。');
  await chat.set('English');
  await expect(chat.page.locator('html')).toHaveAttribute('lang', 'en');
});

test.describe('in a browser that prefers Chinese', () => {
  test.use({ locale: 'zh-CN' });

  test('the page is Chinese from the start', async ({ world, page }) => {
    await page.goto(world.server.url);
    await expect(page.locator('html')).toHaveAttribute('lang', 'zh-CN');
    await page.getByRole('button', { name: '设置' }).click();
    await expect(page.getByRole('button', { name: '中文' })).toHaveAttribute('aria-pressed', 'true');
  });
});

test('the page is dark when it is asked to be, and still is after a reload', async ({ chat }) => {
  const lightness = () =>
    chat.page.evaluate(() => {
      const canvas = document.createElement('canvas').getContext('2d');
      if (canvas === null) return 0;
      const main = document.querySelector('main');
      canvas.fillStyle = getComputedStyle(main?.parentElement ?? document.body).backgroundColor;
      canvas.fillRect(0, 0, 1, 1);
      const [red = 0, green = 0, blue = 0] = canvas.getImageData(0, 0, 1, 1).data;
      return (red + green + blue) / 3;
    });
  expect(await lightness()).toBeGreaterThan(200);
  await chat.set('Dark');
  await expect.poll(lightness).toBeLessThan(80);
  await chat.reload();
  expect(await lightness()).toBeLessThan(80);
  await chat.set('Light');
  await expect.poll(lightness).toBeGreaterThan(200);
});

test.describe('in a dark system', () => {
  test.use({ colorScheme: 'dark' });

  test('the page is dark by itself', async ({ chat }) => {
    await expect(chat.page.locator('html')).toHaveAttribute('data-theme', 'dark');
  });
});

test.describe('by keyboard alone', () => {
  /** Goes on by Tab until this has the focus. */
  async function tabTo(chat: ChatPage, role: 'button' | 'textbox', name: string | RegExp) {
    const target = chat.page.getByRole(role, { name, exact: true }).last();
    for (let presses = 0; presses < 60; presses += 1) {
      if (await target.evaluate((element) => element === document.activeElement)) return;
      await chat.page.keyboard.press('Tab');
    }
    throw new Error(`Tab never reached ${String(name)}`);
  }

  test('one sends, approves, and denies with a reason', async ({ world, chat }) => {
    const { keyboard } = chat.page;
    world.model.script(calls(NOTE), says('Written.'), calls({ ...NOTE, id: 'two' }), says('Not written.'));
    await tabTo(chat, 'textbox', 'Message');
    await keyboard.type('first line');
    await keyboard.press('Shift+Enter');
    await keyboard.type('second line');
    await keyboard.press('Enter');
    await expect(chat.words.last()).toContainText(/first line\s+second line/);
    await chat.isInState(chat.card('write_note'), 'Waiting for you');
    await tabTo(chat, 'button', 'Approve');
    await keyboard.press('Enter');
    await chat.hears('Written.');
    await chat.isAtRest();
    await tabTo(chat, 'textbox', 'Message');
    await keyboard.type('again');
    await keyboard.press('Enter');
    await chat.isInState(chat.card('write_note').last(), 'Waiting for you');
    await tabTo(chat, 'button', 'Deny');
    await keyboard.press('Enter');
    await keyboard.type('no more milk');
    await keyboard.press('Enter');
    await chat.hears('Not written.');
    expect(world.model.request(4).results.at(-1)?.text).toContain('no more milk');
  });

  test('one opens the menu of tools, chooses, and comes back', async ({ chat }) => {
    const { keyboard } = chat.page;
    await tabTo(chat, 'button', 'Tools');
    await keyboard.press('Enter');
    const menu = chat.page.getByRole('group', { name: 'Tools' });
    await expect(menu).toBeVisible();
    await keyboard.press('Escape');
    await expect(menu).toBeHidden();
    await expect(chat.page.getByRole('button', { name: 'Tools' })).toBeFocused();
    await keyboard.press('Enter');
    await tabTo(chat, 'button', /^No tools/);
    await keyboard.press('Enter');
    await expect(chat.page.getByRole('button', { name: /^Next: / })).toBeVisible();
  });

  test('the first stop leads to the message field', async ({ chat }) => {
    await chat.page.evaluate(() => {
      (document.activeElement as HTMLElement | null)?.blur();
    });
    const skip = chat.page.getByRole('link', { name: 'Skip to the message field' });
    await skip.focus();
    await chat.page.keyboard.press('Enter');
    await expect(chat.composer).toBeFocused();
  });
});

test.describe('on a phone', () => {
  test.use({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });

  test('everything fits, the chats are in a drawer, and fingers find what they press', async ({
    world,
    chat,
  }) => {
    world.model.script(calls(NOTE), says('Written.'));
    await chat.composer.fill('write it down');
    await chat.send.tap();
    const card = chat.card('write_note');
    await chat.isInState(card, 'Waiting for you');
    const wider = () =>
      chat.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(await wider()).toBe(0);
    const tops = new Set<number | undefined>();
    for (const name of ['Approve', 'Always allow', 'Edit', 'Deny']) {
      const box = await card.getByRole('button', { name, exact: true }).boundingBox();
      expect(box?.height, name).toBeGreaterThanOrEqual(44);
      tops.add(box?.y);
    }
    expect(tops.size, 'the buttons are in one row').toBe(1);
    await card.getByRole('button', { name: 'Approve', exact: true }).tap();
    await chat.hears('Written.');
    await expect(chat.chats).toBeHidden();
    await chat.page.getByRole('button', { name: 'Open the chat list' }).tap();
    const drawer = chat.page.getByRole('dialog', { name: 'Chats' });
    await expect(drawer.getByRole('link', { name: /^write it down/ })).toBeVisible();
    expect(await wider()).toBe(0);
    await drawer.getByRole('button', { name: 'New chat' }).tap();
    await expect(drawer).toBeHidden();
    await expect(chat.log).toBeEmpty();
  });
});
