// The examples that do without the helper: what they promise, as they are printed, against the built server.

import { expect, test } from '@playwright/test';
import { Server } from '../../../e2e/harness/server.mjs';
import { Example } from './example';
import { View } from './view';

test.describe.configure({ mode: 'default' });
test.use({ permissions: ['geolocation'], geolocation: { latitude: 46.948, longitude: 7.4474 } });

/** Serves the example of a page with one of its files in the place of another; its URL. */
function serveInstead(page: string, instead: Record<string, string>): () => string {
  let server: Server | undefined;
  let example: Example | undefined;
  let url = '';
  test.beforeAll(async () => {
    test.setTimeout(120_000);
    server = await Server.start({});
    example = new Example({ page, helper: {}, check: ['tsc'], instead }, server.url);
    await example.build();
    url = await example.serve();
  });
  test.afterAll(async () => {
    await example?.discard();
    await server?.discard();
  });
  return () => url;
}

test.describe('useChat without the helper', () => {
  const url = serveInstead('usechat.md', { 'src/ChatPage.tsx': 'src/StockPage.tsx' });

  test('a call is approved, also after a reload, and denied', async ({ page }) => {
    await page.goto(url());
    const view = new View(page);
    await view.say('write a note: buy milk');
    await view.press('Approve', view.card('write_note'));
    await view.shows('I wrote down “buy milk”');
    await view.say('write a note: buy bread');
    await view.shows('write_note: approval-requested');
    await page.reload();
    await view.press('Approve', view.card('write_note'));
    await view.shows('I wrote down “buy bread”');
    await view.say('write a note: buy tea');
    await view.press('Deny', view.card('write_note'));
    await view.shows('`write_note` was denied');
  });

  test('a tool of the page runs, also in one step with others', async ({ page }) => {
    await page.goto(url());
    const view = new View(page);
    await view.say('where am I');
    await view.shows('Your browser says that you are at latitude 46.9480');
    await view.say('do everything');
    // The stream is let go, and stock clients post only when no call is left open.
    for (const tool of ['current_time', 'search_notes', 'write_note', 'get_location'])
      await view.press('Approve', view.card(tool));
    await view.shows('I wrote down “buy milk”');
  });

  test('stop ends a run that waits', async ({ page }) => {
    await page.goto(url());
    const view = new View(page);
    await view.say('write a note: buy milk');
    await view.shows('write_note: approval-requested');
    const stopped = page.waitForResponse('**/stop');
    await view.press('Stop');
    await stopped;
    await page.reload();
    await view.shows('write_note: output-error');
    await expect(page.getByRole('button', { name: 'Approve' })).toHaveCount(0);
  });
});

test.describe('assistant-ui without the helper', () => {
  const url = serveInstead('assistant-ui.md', { 'src/Assistant.tsx': 'src/StockAssistant.tsx' });

  test('a call is approved, another denied', async ({ page }) => {
    await page.goto(url());
    const view = new View(page);
    await view.say('write a note: buy milk');
    await view.press('Approve', view.card('write_note'));
    await view.shows('I wrote down “buy milk”');
    await view.say('write a note: buy tea');
    await view.press('Deny', view.card('write_note'));
    await view.shows('`write_note` was denied');
  });

  test('a tool of the page runs', async ({ page }) => {
    await page.goto(url());
    const view = new View(page);
    await view.say('use get_timezone');
    await view.shows(/get_timezone.*Europe\/Berlin/);
  });
});
