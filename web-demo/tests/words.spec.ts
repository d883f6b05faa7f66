// What is said: text, Markdown, reasoning; stop, an answer made again, an edited message.

import { expect, gate, PAGES, refuses, says, test } from './world';

test('text streams, and the page says when it is done', async ({ world, chat }) => {
  const more = gate();
  world.model.script(async (pen) => {
    pen.says('Tea ', 'is ');
    await more.opened;
    pen.says('ready.');
  });
  await chat.say('tea?');
  await expect(chat.words).toHaveText('tea?');
  await chat.hears('Tea is');
  await expect(chat.answers.last()).toHaveAttribute('aria-busy', 'true');
  await expect(chat.stop).toBeVisible();
  more.open();
  await chat.hears('Tea is ready.');
  await chat.isAtRest();
});

test('Markdown is shown as what it means', async ({ world, chat }) => {
  world.model.script(
    says(
      '# A heading\n\nSome **strong** words and [a page](https://example.org/).\n\n',
      '- one\n- two\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\n```js\nlet x = 1;\n```\n',
    ),
  );
  await chat.say('show me');
  const answer = chat.answers.last();
  await expect(answer.getByRole('heading', { name: 'A heading' })).toBeVisible();
  await expect(answer.getByRole('strong')).toHaveText('strong');
  await expect(answer.getByRole('link', { name: 'a page' })).toHaveAttribute('href', 'https://example.org/');
  await expect(answer.getByRole('listitem')).toHaveText(['one', 'two']);
  await expect(answer.getByRole('cell')).toHaveText(['1', '2']);
  await expect(answer.getByRole('code')).toContainText('let x = 1;');
});

test('HTML of the model is text, and does nothing', async ({ world, chat }) => {
  world.model.script(
    says('<img src=x onerror="document.title=1"> <script>document.title=2</script> still here'),
  );
  await chat.say('hello');
  await chat.hears('still here');
  await expect(chat.answers.last().getByRole('img')).toHaveCount(0);
  expect(await chat.page.title()).not.toMatch(/^[12]$/);
});

for (const { name, path } of PAGES)
  test.describe(`on ${name}`, () => {
    test.use({ path });

    test('a diagram is drawn where it can reach nothing, and its text is at hand', async ({
      world,
      chat,
    }) => {
      const diagram =
        '%%{init: {"securityLevel": "loose"}}%%\nflowchart LR\n' +
        '  tea["<img src=x onerror=parent.document.title=1> Tea"] --> cup[Cup]\n' +
        '  click cup href "javascript:parent.document.title=2"\n';
      const writing = gate();
      world.model.script(async (pen) => {
        pen.says('Look:\n\n```mermaid\n', diagram);
        await writing.opened;
        pen.says('```\n\nThat is all.');
      });
      await chat.say('draw it');
      await chat.hears('flowchart LR');
      await expect(chat.log.locator('iframe')).toHaveCount(0);
      writing.open();
      await chat.hears('That is all.');
      const frame = chat.log.getByTitle('Diagram', { exact: true });
      await expect(frame).toBeVisible();
      await expect(frame.contentFrame().getByText('Cup')).toBeVisible();
      await expect(frame.contentFrame().locator('script, [onerror], a[href^="javascript"]')).toHaveCount(0);
      world.mayLog(
        /policy was broken: connect-src/,
        /Fetch API cannot load/,
        /violates the following Content Security/,
      );
      const reached = await frame
        .contentFrame()
        .locator('body')
        .evaluate(async () => {
          const tries = [
            () => parent.document.title,
            () => localStorage.length,
            () => fetch(new URL('/api/chats', document.baseURI)),
          ];
          const outcomes = await Promise.allSettled(tries.map(async (one) => one()));
          return outcomes.filter(({ status }) => status === 'fulfilled');
        });
      expect(reached).toEqual([]);
      expect(await chat.page.title()).not.toMatch(/^[12]$/);
      await chat.log.getByRole('button', { name: 'Show the text of the diagram' }).click();
      await expect(chat.log.getByRole('code')).toContainText('flowchart LR');
      await chat.log.getByRole('button', { name: 'Show the diagram' }).click();
      await expect(chat.log.getByRole('code')).toBeHidden();
      await chat.set('Dark');
      await expect(frame.contentFrame().locator('html')).toHaveCSS('color-scheme', 'dark');
      await expect(frame).toBeVisible();
    });

    test('each block and each field runs in the direction of its text', async ({ world, chat }) => {
      world.model.script(
        says(
          'مرحبا بالعالم\n\nHello world\n\n- واحد\n- two\n\n> اقتباس\n\n| عمود | b |\n| - | - |\n| نص | 2 |\n\n',
          '```js\nlet x = 1; // تعليق\n```\n',
        ),
      );
      await chat.composer.fill('مرحبا');
      await expect(chat.composer).toHaveCSS('direction', 'rtl');
      await chat.composer.press('Enter');
      await chat.hears('Hello world');
      await chat.isAtRest();
      const { answers, page } = chat;
      await expect(chat.words.getByText('مرحبا')).toHaveCSS('direction', 'rtl');
      await expect(page.getByRole('heading', { level: 1 })).toHaveCSS('direction', 'rtl');
      for (const [words, direction] of [
        ['مرحبا بالعالم', 'rtl'],
        ['Hello world', 'ltr'],
        ['واحد', 'rtl'],
        ['two', 'ltr'],
        ['اقتباس', 'rtl'],
        ['عمود', 'rtl'],
        ['نص', 'rtl'],
        ['2', 'ltr'],
      ] as const)
        await expect(answers.getByText(words, { exact: true }), words).toHaveCSS('direction', direction);
      for (const role of ['list', 'blockquote', 'table'] as const)
        await expect(answers.getByRole(role), role).toHaveCSS('direction', 'rtl');
      await expect(answers.locator('pre')).toHaveCSS('direction', 'ltr');
    });

    test('a diagram that is none is shown as it was written', async ({ world, chat }) => {
      world.model.script(says('```mermaid\nflowchart LR\n  tea --> --> cup\n```\n\nThat is all.'));
      await chat.say('draw it');
      await expect(chat.log.getByText('This diagram could not be drawn.')).toBeVisible();
      await expect(chat.log.getByRole('code')).toContainText('tea --> --> cup');
    });
  });

test('reasoning is folded away, and can be read', async ({ world, chat }) => {
  world.model.script((pen) => {
    pen.reasons('Green or ', 'black?');
    pen.says('Green.');
  });
  await chat.say('which tea?');
  await chat.hears('Green.');
  const thought = chat.answers.last().getByText('Green or black?');
  await expect(thought).toBeHidden();
  await chat.answers.last().getByText('Thought', { exact: true }).click();
  await expect(thought).toBeVisible();
});

test('stop ends the answer, and the model is not listened to any more', async ({ world, chat }) => {
  world.model.script(async (pen) => {
    pen.says('On and on');
    await pen.gone;
  });
  await chat.say('tell me everything');
  await chat.hears('On and on');
  await chat.stop.click();
  await chat.isAtRest();
  await expect(chat.composer).toBeEditable();
  await expect.poll(() => world.model.request(1).gone).toBe(true);
});

test('an answer is made again', async ({ world, chat }) => {
  world.model.script(says('Heads.'), says('Tails.'));
  await chat.say('flip a coin');
  await chat.hears('Heads.');
  await chat.answers.last().getByRole('button', { name: 'Answer again' }).click();
  await chat.hears('Tails.');
  await expect(chat.answers).toHaveCount(1);
  expect(world.model.request(2).words).toEqual(['user: flip a coin']);
});

test('an edited message is answered anew, and what followed it is gone', async ({ world, chat }) => {
  world.model.script(says('A cat.'), says('It purrs.'), says('A dog.'));
  await chat.say('name a pet');
  await chat.hears('A cat.');
  await chat.isAtRest();
  await chat.say('what does it do?');
  await chat.hears('It purrs.');
  await chat.isAtRest();
  await chat.words.first().getByRole('button', { name: 'Edit message', exact: true }).click();
  const field = chat.page.getByRole('textbox', { name: 'Edit your message' });
  await expect(field).toHaveValue('name a pet');
  await field.fill('name another pet');
  await chat.page.getByRole('button', { name: 'Send edited message' }).click();
  await chat.hears('A dog.');
  await expect(chat.words).toHaveText(['name another pet']);
  await expect(chat.answers).toHaveCount(1);
  expect(world.model.request(3).words).toEqual(['user: name another pet']);
});

test('an error of the model is shown, and the message can be tried again', async ({ world, chat }) => {
  // A provider's refusal is no fault of the request.
  world.model.script(refuses(400), says('Here I am.'));
  await chat.say('hello');
  await expect(chat.page.getByRole('alert')).toBeVisible();
  await chat.page.getByRole('button', { name: 'Try again' }).click();
  await chat.hears('Here I am.');
  await expect(chat.words).toHaveCount(1);
});
