// What the pages under docs/guide/ promise, tried with their examples as they are printed: each is checked by
// TypeScript, built, and used in a browser, in front of the built server. They look alike, so one list of
// promises is tried with all of them.

import { expect, test as base } from '@playwright/test';
import { API_KEY, FakeOpenAi } from '../../../e2e/harness/fake-openai.mjs';
import { Server } from '../../../e2e/harness/server.mjs';
import { gate } from '../../../e2e/harness/until.mjs';
import { Example, type ExampleOptions } from './example';
import { View } from './view';

const HELPER = { 'src/fermata.ts': 'fermata.ts' };
const EXAMPLES: Record<string, ExampleOptions> = {
  'docs/guide/usechat.md': {
    page: 'usechat.md',
    helper: { ...HELPER, 'src/fermata-react.ts': 'fermata-react.ts' },
    check: ['tsc'],
  },
  'docs/guide/assistant-ui.md': {
    page: 'assistant-ui.md',
    helper: { ...HELPER, 'src/fermata-assistant-ui.tsx': 'fermata-assistant-ui.tsx' },
    check: ['tsc'],
  },
  Vue: { page: 'vue-svelte-angular.md', heading: 'Vue', helper: HELPER, check: ['vue-tsc'] },
  Svelte: {
    page: 'vue-svelte-angular.md',
    heading: 'Svelte',
    helper: HELPER,
    check: ['svelte-check', '--fail-on-warnings'],
  },
  Angular: { page: 'vue-svelte-angular.md', heading: 'Angular', helper: HELPER, check: ['tsc'] },
};

/** What the browser says of every refusal, and assistant-ui of every edited input. */
const EXPECTED = /^(Failed to load resource|\[ToolInvocationTracker\] argsText changed)/;

for (const [name, options] of Object.entries(EXAMPLES)) {
  base.describe(name, () => {
    // One after the other in one process: the example is built once.
    base.describe.configure({ mode: 'default' });
    let model: FakeOpenAi;
    let server: Server;
    let demo: Server;
    let example: Example;
    let url: string;
    let scriptedUrl: string;

    base.beforeAll(async () => {
      base.setTimeout(120_000);
      model = await FakeOpenAi.start();
      const api = { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: API_KEY, FERMATA_MODEL: 'test-model' };
      server = await Server.start({ ...api, FERMATA_MAX_BODY: '64KB' });
      demo = await Server.start({});
      example = new Example(options, demo.url);
      await example.build();
      url = await example.serve();
      scriptedUrl = await example.serve(server.url);
    });
    base.afterAll(async () => {
      // Where the start failed, only what was reached is there.
      const started: (Example | Server | undefined)[] = [example, demo, server];
      for (const one of started) await one?.discard();
      await (model as FakeOpenAi | undefined)?.stop();
    });

    const test = base.extend<{ view: View }>({
      view: async ({ page }, run) => {
        const faults: string[] = [];
        page.on('pageerror', (error) => faults.push(String(error)));
        page.on('console', (message) => {
          if (['error', 'warning'].includes(message.type()) && !EXPECTED.test(message.text()))
            faults.push(message.text());
        });
        await page.goto(url);
        await run(new View(page));
        expect(faults).toEqual([]);
      },
    });

    test.use({ permissions: ['geolocation'], geolocation: { latitude: 46.948, longitude: 7.4474 } });

    test('its types are right', () => {
      test.setTimeout(120_000);
      example.checkTypes();
    });

    test('text is shown while it is written, and stop ends that', async ({ page, view }) => {
      const { opened, open } = gate();
      model.script(async (pen) => {
        pen.says('The first half, ');
        await opened;
        pen.says('the second half.');
      });
      await page.goto(scriptedUrl);
      await view.say('hello');
      await view.shows('The first half,');
      open();
      await view.shows('The first half, the second half.');

      model.script(async (pen) => {
        pen.says('This has no end');
        await pen.gone;
      });
      await view.say('and now');
      await view.shows('This has no end');
      await view.press('Stop');
      await expect.poll(() => model.requests.at(-1)?.gone).toBe(true);
      expect(model.verdict).toEqual([]);
    });

    test('a call is approved, and the answer goes on', async ({ view }) => {
      await view.say('write a note: buy milk');
      await view.press('Approve', view.card('write_note'));
      await view.shows('Thank you: I wrote down “buy milk”.');
    });

    test('a call is denied, and the model is told why', async ({ view }) => {
      await view.say('write a note: buy milk');
      await view.card('write_note').getByLabel('Reason').fill('we have some');
      await view.press('Deny', view.card('write_note'));
      await view.shows(/`write_note` was denied, so I left it.*we have some/);
    });

    test('a call is always approved', async ({ view }) => {
      await view.say('write a note: buy milk');
      await view.press('Always', view.card('write_note'));
      await view.shows('Thank you: I wrote down “buy milk”.');
      await view.say('write a note: buy bread');
      await view.shows('Thank you: I wrote down “buy bread”.');
    });

    test('a call runs with an edited input, and one that is not valid is refused', async ({ view }) => {
      await view.say('write a note: buy milk');
      const card = view.card('write_note');
      await card.getByLabel('Input').fill('{"title":"buy milk"}');
      await view.press('Approve', card);
      await expect(card.getByRole('alert')).toContainText('body');
      await card.getByLabel('Input').fill('{"title":"shopping","body":"buy oat milk"}');
      await view.press('Approve', card);
      await view.shows('I wrote down your version, “shopping”: buy oat milk');
    });

    test('a tool of the page runs by itself', async ({ view }) => {
      await view.say('where am I');
      await view.shows('Your browser says that you are at latitude 46.9480');
    });

    test('a tool of the page is answered by the person', async ({ view }) => {
      await view.say('use ask_user');
      await view.card('ask_user').getByLabel('Answer').fill('forty-two');
      await view.press('Reply', view.card('ask_user'));
      await view.shows(/You told me:\s+- forty-two/);
    });

    test('several calls at once wait for one decision', async ({ view }) => {
      await view.say('do everything');
      await view.press('Approve', view.card('write_note'));
      await view.shows('Your browser says that you are at latitude 46.9480');
      await view.shows('Thank you: I wrote down “buy milk”.');
    });

    test('a reload while a call waits shows the call, and its answer counts', async ({ page, view }) => {
      await view.say('write a note: buy milk');
      await expect(view.card('write_note').getByRole('button', { name: 'Approve' })).toBeVisible();
      await page.reload();
      await view.press('Approve', view.card('write_note'));
      await view.shows('Thank you: I wrote down “buy milk”.');
      await page.reload();
      await view.shows('Thank you: I wrote down “buy milk”.');
      await expect(view.page.getByText('I will write that down, if you allow it.')).toHaveCount(1);
    });

    test('two tabs show the same, whichever of them answers', async ({ context, page, view }) => {
      await view.say('write a note: buy milk');
      await expect(view.card('write_note').getByRole('button', { name: 'Approve' })).toBeVisible();
      const other = new View(await context.newPage());
      await other.page.goto(page.url());
      await other.press('Approve', other.card('write_note'));
      await other.shows('Thank you: I wrote down “buy milk”.');
      await view.shows('Thank you: I wrote down “buy milk”.');
      await view.say('what time is it');
      await other.shows(/It is \d\d:\d\d in UTC\./);
      await expect(view.page.getByRole('button', { name: 'Approve' })).toHaveCount(0);
    });

    test('stop ends a run that waits', async ({ page, view }) => {
      await view.say('write a note: buy milk');
      await expect(view.card('write_note').getByRole('button', { name: 'Approve' })).toBeVisible();
      await view.press('Stop');
      await expect(view.card('write_note').getByRole('button', { name: 'Approve' })).toHaveCount(0);
      await page.reload();
      await view.shows('I will write that down, if you allow it.');
      await expect(page.getByRole('button', { name: 'Approve' })).toHaveCount(0);
    });

    test('what the server refuses is said in words', async ({ page, view }) => {
      await page.goto(scriptedUrl);
      await view.say('x'.repeat(100_000));
      await expect(page.getByRole('alert')).toHaveText(/^[^{}]*too large[^{}]*$/);
    });
  });
}
