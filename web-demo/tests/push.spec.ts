// The switch of the inbox for notifications on this device, in front of the server. Tests have no push service, so a page of theirs makes up
// its subscriptions. The server checks them, and keeps them.

import { createECDH, randomBytes, randomUUID } from 'node:crypto';
import type { Page } from '@playwright/test';
import { expect, FAILED_REQUEST, test, type World } from './world';

const LABEL = 'Notify me on this device';

const subscription = () => ({
  endpoint: `https://fcm.googleapis.com/fcm/send/${randomUUID()}`,
  keys: {
    p256dh: createECDH('prime256v1').generateKeys('base64url'),
    auth: randomBytes(16).toString('base64url'),
  },
});

type Subscription = ReturnType<typeof subscription>;

/** Has pages subscribe with `given`; without it, their push service fails. */
function makeUpPush(given: Subscription | undefined) {
  const KEY = 'subscribed';
  const known = () => {
    const key = localStorage.getItem(KEY);
    if (key === null || given === undefined) return null;
    const bytes = Uint8Array.from(atob(key.replaceAll('-', '+').replaceAll('_', '/')), (one) =>
      one.charCodeAt(0),
    );
    return {
      endpoint: given.endpoint,
      options: { applicationServerKey: bytes.buffer },
      toJSON: () => given,
      unsubscribe: () => {
        localStorage.removeItem(KEY);
        return Promise.resolve(true);
      },
    };
  };
  Object.assign(PushManager.prototype, {
    getSubscription: () => Promise.resolve(known()),
    subscribe: ({ applicationServerKey }: { applicationServerKey: string }) => {
      if (given === undefined) return Promise.reject(new DOMException('push service error', 'AbortError'));
      localStorage.setItem(KEY, applicationServerKey);
      return Promise.resolve(known());
    },
  });
}

test.use({ config: 'public_url = "https://chat.example.com"\n[channels.phone]\nkind = "web_push"\n' });

/** Opens the inbox, and returns the switch. */
async function openInbox(world: World, page: Page) {
  await page.goto(`${world.server.url}/inbox`);
  return page.getByRole('switch', { name: LABEL });
}

const askServer = (world: World, method: 'POST' | 'DELETE', body: object) =>
  fetch(`${world.server.url}/api/push`, {
    method,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

/** Returns `true` if the server knew a browser, which it then knows no more. */
const wasRegistered = async (world: World, { endpoint }: Subscription) =>
  (await askServer(world, 'DELETE', { endpoint })).status === 204;

test('turns notifications on and off, and registers the browser again on the next visit', async ({
  world,
  page,
  context,
}) => {
  const given = subscription();
  await context.addInitScript(makeUpPush, given);
  await context.grantPermissions(['notifications'], { origin: world.server.url });
  const toggle = await openInbox(world, page);
  await expect(toggle).not.toBeChecked();
  await toggle.click();
  await expect(toggle).toBeChecked();
  expect(await wasRegistered(world, given)).toBe(true);
  await page.reload();
  await expect(toggle).toBeChecked();
  expect(await wasRegistered(world, given)).toBe(true);
  await page.reload();
  await expect(toggle).toBeChecked();
  await toggle.click();
  await expect(toggle).not.toBeChecked();
  expect(await wasRegistered(world, given)).toBe(false);
  await page.reload();
  await expect(toggle).not.toBeChecked();
});

test('says why notifications stay off', async ({ world, page, context }) => {
  world.mayLog(FAILED_REQUEST);
  const given = subscription();
  await context.addInitScript(makeUpPush, given);
  const alert = page.getByRole('alert');
  // Without a permission, a browser without a head denies.
  const toggle = await openInbox(world, page);
  await toggle.click();
  await expect(alert).toHaveText(
    'Your browser does not allow notifications from this site. You can allow them in its site settings.',
  );
  await context.grantPermissions(['notifications'], { origin: world.server.url });
  const others = Array.from({ length: 20 }, subscription);
  for (const other of others) await askServer(world, 'POST', { subscription: other });
  await toggle.click();
  await expect(alert).toHaveText(/^You have registered 20 browsers/);
  await expect(toggle).not.toBeChecked();
  for (const other of others) expect(await wasRegistered(world, other)).toBe(true);
  await toggle.click();
  await expect(toggle).toBeChecked();
  await expect(alert).toBeHidden();
});

test('says that the push service of the browser fails', async ({ world, page, context }) => {
  await context.addInitScript(makeUpPush, undefined);
  await context.grantPermissions(['notifications'], { origin: world.server.url });
  const toggle = await openInbox(world, page);
  await toggle.click();
  await expect(page.getByRole('alert')).toHaveText(
    'Your browser could not connect to its push service. Try again later.',
  );
  await expect(toggle).not.toBeChecked();
});

test.describe('without a channel', () => {
  test.use({ config: '' });

  test('has no switch', async ({ world, page }) => {
    world.mayLog(FAILED_REQUEST);
    const asked = page.waitForResponse(`${world.server.url}/api/push`);
    const toggle = await openInbox(world, page);
    expect((await asked).status()).toBe(404);
    await expect(page.getByText('All done')).toBeVisible();
    await expect(toggle).toBeHidden();
  });
});
