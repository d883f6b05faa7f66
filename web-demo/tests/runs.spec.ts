// What people see of a run: the line above the composer, its plan, calls that fail or take long, and what tells the person
// that something waits for them.

import type { Page } from '@playwright/test';
import { calls, expect, FAILED_REQUEST, gate, letGo, PAGES, says, seriousViolations, test } from './world';

const NOTE = { name: 'write_note', input: { title: 'Milk', body: 'Two litres.\nOat, not soy.' } };
const PLAN = {
  goal: 'Know what was noted, and note the rest',
  steps: [
    { id: 'find', title: 'Search the notes', tool: 'search_notes' },
    { id: 'write', title: 'Write the new note', tool: 'write_note', dependsOn: ['find'] },
  ],
};

/** Has every post of the page want a plan, about which the person is asked. */
const asksAboutPlans = (page: Page) =>
  page.route('**/api/chat', async (route) => {
    const body = route.request().postDataJSON() as { fermata: object };
    await route.continue({
      postData: JSON.stringify({ ...body, fermata: { ...body.fermata, plan: 'ask' } }),
    });
  });

for (const { name, path } of PAGES) {
  test.describe(`on ${name}`, () => {
    test.use({ path });

    test('a plan is asked about, ticked off, and stays after a reload', async ({ world, chat }, info) => {
      const { page } = chat;
      const line = page.locator('[data-going]');
      const last = gate();
      world.model.script(
        calls({ name: 'make_plan', input: PLAN }),
        calls({ name: 'search_notes', input: { query: 'milk' } }),
        calls({ name: 'update_plan', input: { id: 'find', state: 'done' } }),
        async (pen) => {
          await last.opened;
          pen.says('Nothing more to do.');
        },
      );
      await asksAboutPlans(page);
      await chat.say('search my notes and write a new one');
      const plan = chat.log.getByRole('group', { name: 'Plan', exact: true });
      const card = chat.card('make_plan');
      await expect(card).toContainText(PLAN.goal);
      await expect(card.getByRole('group', { name: 'Plan', exact: true })).toBeVisible();
      await expect(plan.getByRole('listitem').nth(1)).toContainText('after 1');
      await expect(line).toHaveText('Waiting for you');
      expect(await seriousViolations(page)).toEqual([]);
      await info.attach('a plan that is asked about', { body: await page.screenshot() });
      await chat.press(card, 'Approve');
      await chat.isInState(card, 'In progress · 1 of 2 steps');
      await expect(plan.getByRole('listitem').first()).toContainText('Done: Search the notes');
      await info.attach('a plan that is ticked off', { body: await page.screenshot() });
      last.open();
      await chat.hears('Nothing more to do.');
      await chat.isAtRest();
      await expect(line).toHaveText('');
      await chat.reload();
      await expect(plan.getByRole('listitem')).toHaveCount(2);
      await expect(plan).toHaveCount(1);
      await expect(card).toContainText('1 of 2 steps');
    });

    test('an open plan has one live card, and can be dropped', async ({ world, chat }, info) => {
      const { page } = chat;
      await asksAboutPlans(page);
      world.model.script(
        calls({ name: 'make_plan', input: PLAN }),
        says('That is all for now.'),
        calls({ name: 'search_notes', input: { query: 'milk' } }),
        says('Still on it.'),
      );
      await chat.say('search the notes and write a new one');
      const card = chat.card('make_plan');
      await chat.press(card, 'Approve');
      await chat.hears('That is all for now.');
      await chat.isAtRest();
      const plan = chat.log.getByRole('group', { name: 'Plan', exact: true });
      const drop = page.getByRole('button', { name: 'Drop plan' });
      await expect(drop).toHaveCount(1);
      await chat.say('go on');
      await chat.hears('Still on it.');
      await chat.isAtRest();
      await expect(card).toContainText('Continued below');
      await expect(plan).toHaveCount(1);
      await expect(drop).toHaveCount(1);
      await info.attach('a plan that goes on', { body: await page.screenshot() });
      await drop.click();
      await expect(drop).toHaveCount(0);
      await expect(chat.answers.last()).toContainText('Not followed');
      await chat.reload();
      await expect(chat.answers.last()).toContainText('Not followed');
      await expect(drop).toHaveCount(0);
    });

    test('the line says what a message would do, and a word approves', async ({ world, chat }, info) => {
      world.mayLog(FAILED_REQUEST);
      const { page } = chat;
      const line = page.locator('[data-going]');
      world.model.script(calls(NOTE), says('Written.'));
      await chat.say('write it down');
      await expect(line).toHaveText('Waiting for you');
      await expect(chat.composer).toHaveAccessibleDescription(
        /Answer above, or reply “yes”\. Any other message cancels it\./,
      );
      await expect(page).toHaveTitle(/^\(1\) /);
      // The difference that the call would make, line by line.
      const card = chat.card('write_note');
      const difference = card.getByLabel('The difference, line by line');
      await expect(difference).toContainText('Added: +Two litres.');
      await expect(card.getByRole('heading').first()).toHaveText(/^Write the note “Milk”/);
      expect(await seriousViolations(page)).toEqual([]);
      await info.attach('a call with its difference', { body: await page.screenshot() });
      await chat.say('yes');
      await chat.hears('Written.');
      await chat.isAtRest();
      await chat.isInState(card, 'Done');
      await expect(line).toHaveText('');
      await expect(page).not.toHaveTitle(/^\(/);
    });

    test('a card shows all that it asks about as soon as it asks', async ({ world, chat }) => {
      // What the page has not loaded yet never comes. On a card it would come between the person's eye and finger.
      await chat.page.route(/\.js$/, () => undefined);
      world.model.script(calls(NOTE), says('Written.'));
      await chat.say('write it down');
      const card = chat.card('write_note');
      await expect(card.getByRole('button', { name: 'Approve', exact: true })).toBeEnabled();
      expect(await card.textContent()).toContain('Added: +Two litres.');
      await chat.press(card, 'Approve');
      await chat.hears('Written.');
    });

    test('another tab shows that an input is edited', async ({ world, chat }, info) => {
      world.model.script(calls(NOTE), says('Written.'));
      await chat.say('write it down');
      const card = chat.card('write_note');
      await chat.isInState(card, 'Waiting for you');
      const other = await world.tab(chat.id);
      const same = other.card('write_note');
      await other.isInState(same, 'Waiting for you');
      const note = 'The input is being edited in another tab.';
      await chat.press(card, 'Edit');
      await expect(same).toContainText(note);
      await expect(card).not.toContainText(note);
      expect(await seriousViolations(other.page)).toEqual([]);
      await info.attach('an input that another tab edits', { body: await other.page.screenshot() });
      await chat.press(card, 'Back');
      await expect(same).not.toContainText(note);
      await other.press(same, 'Approve');
      await chat.hears('Written.');
    });

    test('a plan is edited while it is asked about', async ({ world, chat }, info) => {
      const { page } = chat;
      world.model.script(calls({ name: 'make_plan', input: PLAN }), says('On it.'));
      await asksAboutPlans(page);
      await chat.say('search my notes and write a new one');
      const plan = chat.log.getByRole('group', { name: 'Plan', exact: true });
      await expect(plan).toContainText('Search the notes');
      const card = chat.card('make_plan');
      await expect(card.getByRole('group', { name: 'Input' })).toHaveCount(0);
      await chat.press(card, 'Edit');
      await card.getByLabel('Goal').fill('Another goal');
      await card.getByRole('button', { name: 'Remove step 1' }).click();
      await card.getByLabel('Step 1', { exact: true }).fill('Write one note');
      await card.getByRole('button', { name: 'Add a step' }).click();
      await card.getByLabel('Step 2', { exact: true }).fill('Tell me of it');
      expect(await seriousViolations(page)).toEqual([]);
      await info.attach('a plan that is edited', { body: await page.screenshot() });
      await chat.press(card, 'Approve with these changes');
      await expect(card).toContainText('Another goal');
      await expect(plan.getByRole('listitem')).toContainText([/Write one note/, /Tell me of it/]);
      await expect(plan).not.toContainText('Search the notes');
      await chat.hears('On it.');
    });

    test.describe('with a tool that has a fallback', () => {
      test.use({
        config:
          'max_note = "10B"\n[[policy]]\ntool = "write_note"\ndecision = "allow"\n' +
          '[tools.write_note]\nfallback = "search_notes"\nfallback_input = { query = "milk" }\n',
      });

      test('a failed call and its fallback name each other', async ({ world, chat }, info) => {
        world.model.script(calls(NOTE), says('It was noted before.'));
        await chat.say('write it down');
        await chat.hears('It was noted before.');
        await chat.isAtRest();
        const failed = chat.card('write_note');
        await expect(failed).toContainText('search_notes was called in its place');
        const fallback = chat.card('search_notes');
        await expect(fallback).toContainText('in place of write_note');
        await expect(fallback).toContainText('nothing was found');
        await info.attach('a call with its fallback', { body: await chat.page.screenshot() });
        await chat.reload();
        await expect(failed).toContainText('search_notes was called in its place');
        await expect(fallback).toContainText('in place of write_note');
      });
    });

    test.describe('with a tool that fails', () => {
      test.use({ config: 'max_note = "10B"\n[[policy]]\ntool = "write_note"\ndecision = "allow"\n' });

      test('a failed call says why, and is tried again', async ({ world, chat }, info) => {
        world.mayLog(FAILED_REQUEST);
        world.model.script(calls(NOTE), says('It is too long.'), says('It still is.'));
        await chat.say('write it down');
        await chat.hears('It is too long.');
        await chat.isAtRest();
        const card = chat.card('write_note').first();
        await expect(card).toHaveAttribute('data-state', 'failed');
        await expect(card).toContainText('the input or the output did not fit');
        await expect(card).toContainText('the model went on without it');
        expect(await seriousViolations(chat.page)).toEqual([]);
        await info.attach('a failed call', { body: await chat.page.screenshot() });
        const again = card.getByRole('button', { name: 'Try again: write_note' });
        await again.focus();
        await chat.page.keyboard.press('Enter');
        // The call had begun to run, so a person decides whether it runs again.
        await chat.card('write_note').last().getByRole('button', { name: 'Approve', exact: true }).click();
        await chat.hears('It still is.');
        await chat.isAtRest();
        await expect(chat.card('write_note')).toHaveCount(2);
        // The first one is not offered again, even after a reload, and leads to the second one.
        await chat.page.reload();
        await expect(chat.card('write_note')).toHaveCount(2);
        await expect(again).toHaveCount(0);
        await card.getByRole('button', { name: 'Show the new call' }).click();
        await expect(chat.card('write_note').last()).toBeFocused();
      });
    });

    test.describe('with a tool that takes long', () => {
      test.use({ hand: true, config: '[tools."hand__*"]\nresource = "the desk"\n' });

      test('a running call is cancelled, and is grey and not red', async ({ world, chat }, info) => {
        const line = chat.page.locator('[data-going]');
        world.model.script(
          calls({ name: 'hand__work', input: { key: 'one' }, id: 'one' }),
          says('You have cancelled it.'),
        );
        await chat.say('work');
        await expect(line).toHaveText('Running hand__work');
        const card = chat.card('hand__work');
        await info.attach('a running call', { body: await chat.page.screenshot() });
        await card.getByRole('button', { name: 'Cancel hand__work' }).click();
        await chat.isInState(card, 'Cancelled');
        await expect(card).toHaveAttribute('data-state', 'cancelled');
        await chat.hears('You have cancelled it.');
        await chat.isAtRest();
        await info.attach('a cancelled call', { body: await chat.page.screenshot() });
        await expect(card.getByRole('button', { name: 'Try again: hand__work' })).toHaveCount(0);
        expect(await seriousViolations(chat.page)).toEqual([]);
      });

      test('the time of a call outlives a reload', async ({ world, chat }, info) => {
        world.model.script(calls({ name: 'hand__work', input: { key: 'one' }, id: 'one' }), says('Done.'));
        await chat.say('work');
        const card = chat.card('hand__work');
        const time = card.getByText(/^ · \d+(?:\.\d+)? (?:ms|s)$/);
        await expect(time).toHaveText(/ s$/);
        const before = Number.parseFloat((await time.textContent())?.replace(' · ', '') ?? '');
        await chat.reload();
        await chat.isInState(card, 'Running');
        await expect(time).toHaveText(/ s$/);
        const after = Number.parseFloat((await time.textContent())?.replace(' · ', '') ?? '');
        expect(after).toBeGreaterThanOrEqual(before);
        await info.attach('a call after a reload', { body: await chat.page.screenshot() });
        letGo(world.server, 'one');
        await chat.hears('Done.');
        await chat.isAtRest();
        const ran = (await time.textContent()) ?? '';
        await chat.reload();
        await expect(time).toHaveText(ran);
      });

      test.describe('and that is asked about', () => {
        test.use({
          config: '[[policy]]\ntool = "hand__work"\ndecision = "ask"\nwords = true\n',
        });

        test('a call that a word has approved is shown as it runs and ends', async ({ world, chat }) => {
          const last = gate();
          world.model.script(calls({ name: 'hand__work', input: { key: 'one' }, id: 'one' }), async (pen) => {
            await last.opened;
            pen.says('Done.');
          });
          await chat.say('work');
          const card = chat.card('hand__work');
          await chat.isInState(card, 'Waiting for you');
          await chat.say('yes');
          await chat.isInState(card, 'Running');
          letGo(world.server, 'one');
          await chat.isInState(card, 'Done');
          last.open();
          await chat.hears('Done.');
        });

        test('a call that has ended is shown so, also if an older record comes late', async ({
          world,
          chat,
        }) => {
          const { page } = chat;
          const read = gate();
          const arrives = gate();
          world.model.script(
            calls({ name: 'hand__work', input: { key: 'one' }, id: 'one' }),
            says('Finished.'),
          );
          await chat.say('work');
          const card = chat.card('hand__work');
          await chat.isInState(card, 'Waiting for you');
          await page.route(
            `**/api/chat/${chat.id}?optional=true`,
            async (route) => {
              const response = await route.fetch();
              read.open();
              await arrives.opened;
              await route.fulfill({ response });
            },
            { times: 1 },
          );
          await chat.say('yes');
          await read.opened;
          letGo(world.server, 'one');
          await chat.hears('Finished.');
          await chat.isAtRest();
          const late = page.waitForResponse(`**/api/chat/${chat.id}?optional=true`);
          arrives.open();
          await (await late).finished();
          // The page has had its turn.
          await page.evaluate(() => new Promise((done) => setTimeout(done)));
          await chat.isInState(card, 'Done');
        });
      });

      test('a call waits for what another chat holds, and the line says so', async ({
        world,
        chat,
      }, info) => {
        world.model.script(
          calls({ name: 'hand__work', input: { key: 'one' }, id: 'one' }),
          calls({ name: 'hand__work', input: { key: 'two' }, id: 'two' }),
        );
        await chat.say('work');
        await chat.isInState(chat.card('hand__work'), 'Running');
        const other = await world.tab();
        await other.say('work, too');
        const line = other.page.locator('[data-going]');
        await expect(line).toHaveText('Waiting for the desk (held by another chat)');
        await info.attach('a call that waits for another chat', { body: await other.page.screenshot() });
        world.model.script(says('Both done.'), says('Both done.'));
        letGo(world.server, 'one');
        await expect(line).toHaveText('Running hand__work');
        letGo(world.server, 'two');
        await other.hears('Both done.');
        await chat.hears('Both done.');
      });
    });

    test.describe('in Chinese', () => {
      test.use({ locale: 'zh-CN' });

      test('the line and the words are Chinese', async ({ world, page, path }, info) => {
        await page.goto(`${world.server.url}${path}`);
        world.model.script(calls(NOTE));
        await page.getByRole('textbox').last().fill('写下来');
        await page.keyboard.press('Enter');
        await expect(page.locator('[data-going]')).toHaveText('等待你的操作');
        await expect(page.getByText('请在上方作答，或回复“确认”。发送其他消息会取消它。')).toBeVisible();
        expect(await seriousViolations(page)).toEqual([]);
        await info.attach('in Chinese', { body: await page.screenshot() });
      });
    });

    test('a hidden page notifies a person who wants that', async ({ world, chat }) => {
      const { page } = chat;
      await page.context().grantPermissions(['notifications'], { origin: world.server.url });
      await page.evaluate(() => {
        const told: string[] = [];
        // What is told is noted, in place of the browser's own.
        function Told(title: string, { body }: { body: string }) {
          told.push(`${title}: ${body}`);
        }
        Object.assign(Told, {
          permission: 'granted',
          requestPermission: () => Promise.resolve('granted'),
        });
        Object.assign(globalThis, { Notification: Told, told });
      });
      const menu = page.getByRole('button', { name: 'Open the chat list' });
      if (await menu.isVisible()) await menu.click();
      const settings = await chat.settings();
      await settings.getByRole('switch', { name: 'Notify me when something waits for me' }).check();
      await page.keyboard.press('Escape');
      const asked = gate();
      world.model.script(async (pen) => {
        await asked.opened;
        pen.calls(NOTE);
      });
      await chat.say('write it down');
      await expect(chat.stop).toBeVisible();
      await page.evaluate(() => {
        Object.defineProperty(document, 'visibilityState', { get: () => 'hidden' });
      });
      asked.open();
      await expect(page).toHaveTitle(/^\(1\) /);
      await expect
        .poll(() => page.evaluate(() => (globalThis as unknown as { told: string[] }).told))
        .toEqual(['Fermata waits for you: One question is open.']);
    });
  });
}
