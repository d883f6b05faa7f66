// More tabs than a browser has connections of HTTP/1.1 to one server, each with a stream that is held,
// through nginx with the settings of `deploy/nginx.conf`.

import type { BrowserContext } from '@playwright/test';
import { Nginx, NO_NGINX } from '../../e2e/harness/nginx.mjs';
import { calls, ChatPage, expect, PAGES, says, test, until, type World } from './world';

const note = (title: string) => ({ name: 'write_note', input: { title, body: 'Two litres.' } });
/** Chromium's, for each server. */
const CONNECTIONS = 6;

test.skip(NO_NGINX !== undefined, `${NO_NGINX ?? ''}: install nginx and openssl`);
test.use({ ignoreHTTPSErrors: true });

/** Runs with nginx in front of the server of the test. */
async function behindNginx(
  { server }: World,
  context: BrowserContext,
  check: (proxy: Nginx) => Promise<void>,
) {
  const proxy = await Nginx.start(new URL(server.url).host);
  try {
    await check(proxy);
    await Promise.all(context.pages().map((page) => page.close()));
  } finally {
    await proxy.stop();
  }
}

/** A tab with a chat in which a call waits and the stream is held. */
async function parkedTab(world: World, context: BrowserContext, base: string, path: string, title: string) {
  const chat = await ChatPage.open(await context.newPage(), base, path);
  world.model.script(calls(note(title)));
  await chat.say(`write ${title}`);
  await chat.isInState(chat.card('write_note'), 'Waiting for you');
  return chat;
}

for (const { name, path } of PAGES) {
  test(`seven tabs with held streams go on over HTTP/2, each with its answer, on ${name}`, async ({
    world,
    context,
  }) => {
    await behindNginx(world, context, async (proxy) => {
      const tabs: ChatPage[] = [];
      for (let place = 0; place <= CONNECTIONS; place++)
        tabs.push(await parkedTab(world, context, proxy.tlsUrl, path, `note ${place}`));
      for (const [place, chat] of tabs.entries()) {
        world.model.script(says(`note ${place} is written.`));
        await chat.press(chat.card('write_note'), 'Approve');
        await chat.hears(`note ${place} is written.`);
        await chat.isAtRest();
      }
      const protocols = await tabs[0]?.page.evaluate(() =>
        performance
          .getEntriesByType('resource')
          .map((entry) => (entry as PerformanceResourceTiming).nextHopProtocol),
      );
      expect(new Set(protocols?.filter((protocol) => protocol !== ''))).toEqual(new Set(['h2']));
    });
  });
}

test('over HTTP/1.1 six tabs leave no connection for an answer, until one of them is closed', async ({
  world,
  context,
  browserName,
}) => {
  test.skip(browserName === 'firefox', 'Firefox opens more connections for what a click asks for');
  await behindNginx(world, context, async (proxy) => {
    const tabs: ChatPage[] = [];
    for (let place = 0; place < CONNECTIONS; place++)
      tabs.push(await parkedTab(world, context, proxy.url, '/', `note ${place}`));
    const last = tabs.at(-1);
    if (last === undefined) throw new Error('there are no tabs');
    const asked = last.page.waitForRequest((request) => request.url().endsWith('/tool-result'));
    world.model.script(says('At last.'));
    await last.press(last.card('write_note'), 'Approve');
    await asked;
    const pending = async () =>
      (
        (await (await fetch(`${world.server.url}/api/chat/${last.id}/pending`)).json()) as {
          pending: unknown[];
        }
      ).pending;
    expect(await pending()).toHaveLength(1);
    await expect(last.card('write_note').getByRole('button', { name: 'Approve' })).toHaveAttribute(
      'aria-busy',
      'true',
    );
    await tabs[0]?.page.close();
    await until(async () => (await pending()).length === 0, 'the answer to arrive');
    await last.hears('At last.');
  });
});
