// The service worker of push notifications: what it shows, closes, sends and opens. Chromium delivers the messages in place of a push
// service. Clicks are events that the test dispatches, so Chromium lets them open no window and focus none.

import type { Worker } from '@playwright/test';
import { approval, expect, test as base, type InboxPage } from './people';

/** What the worker's side of the tests needs of a worker's global scope. */
interface Scope {
  registration: ServiceWorkerRegistration;
  clients: object;
  opened?: string[];
  NotificationEvent: new (
    type: string,
    init: { notification: Notification | undefined; action: string },
  ) => Event;
  dispatchEvent: (event: Event) => boolean;
}

class PushWorker {
  constructor(
    readonly inbox: InboxPage,
    readonly worker: Worker,
    private readonly push: (data: string) => Promise<unknown>,
  ) {}

  /** Delivers a message of the server. */
  deliver(message: object) {
    return this.push(JSON.stringify(message));
  }

  request(id: string, inputHash: string) {
    const url = `${this.inbox.url}/inbox?approval=${id}`;
    const [title, body] = ['Approval needed: Refund an order', `Refund order ${id}`];
    return this.deliver({ type: 'approval.requested', id, inputHash, title, body, url });
  }

  /** The notifications that are shown. */
  shown() {
    return this.worker.evaluate(async () => {
      const { registration } = self as unknown as Scope;
      const all = (await registration.getNotifications()) as (Notification & {
        actions: { action: string; title: string }[];
      })[];
      return all.map(({ title, body, tag, actions }) => ({
        title,
        body,
        tag,
        actions: actions.map(({ action, title }) => `${action}: ${title}`),
      }));
    });
  }

  /** Clicks on the only notification, or on one of its buttons, and waits until the worker is done with it. */
  async click(action: '' | 'approve' | 'deny' = '') {
    await expect.poll(() => this.shown()).toHaveLength(1);
    await this.worker.evaluate(async (action) => {
      const scope = self as unknown as Scope;
      const [notification] = await scope.registration.getNotifications();
      const event = new scope.NotificationEvent('notificationclick', { notification, action });
      let done: Promise<unknown> | undefined;
      // Only an event of the browser has one.
      Object.defineProperty(event, 'waitUntil', {
        value: (promise: Promise<unknown>) => {
          done = promise;
        },
      });
      scope.dispatchEvent(event);
      await done;
    }, action);
    expect(await this.shown()).toEqual([]);
  }

  /** Has the worker note the windows that it opens. */
  noteWindows() {
    return this.worker.evaluate(() => {
      const scope = self as unknown as Scope;
      scope.opened = [];
      Object.defineProperty(scope.clients, 'openWindow', {
        value: (url: string) => scope.opened?.push(url),
      });
    });
  }

  opened() {
    return this.worker.evaluate(() => (self as unknown as Scope).opened);
  }
}

/** The worker, as the inbox of alice has registered it. */
const test = base.extend<{ push: PushWorker }>({
  push: async ({ context, inbox }, use) => {
    await context.grantPermissions(['notifications'], { origin: inbox.url });
    await inbox.open();
    const cdp = await context.newCDPSession(inbox.page);
    const registrationId = new Promise<string>((resolve) => {
      cdp.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => {
        for (const one of registrations) resolve(one.registrationId);
      });
    });
    await cdp.send('ServiceWorker.enable');
    const started = context.waitForEvent('serviceworker');
    await inbox.page.evaluate(async () => {
      await navigator.serviceWorker.register('/push-worker.js');
      await navigator.serviceWorker.ready;
    });
    const to = { origin: inbox.url, registrationId: await registrationId };
    const deliver = (data: string) => cdp.send('ServiceWorker.deliverPushMessage', { ...to, data });
    await use(new PushWorker(inbox, await started, deliver));
  },
});

test('an approval is shown with two buttons, once', async ({ push }) => {
  await push.request('a', 'hash');
  const shown = {
    title: 'Approval needed: Refund an order',
    body: 'Refund order a',
    tag: 'a',
    actions: ['approve: Approve', 'deny: Deny'],
  };
  await expect.poll(() => push.shown()).toEqual([shown]);
  // A reminder takes the place of the notification.
  await push.deliver({
    type: 'approval.reminder',
    id: 'a',
    inputHash: 'hash',
    title: 'Still waits',
    body: '',
  });
  await expect.poll(() => push.shown()).toEqual([{ ...shown, title: 'Still waits', body: '' }]);
});

test('a settled approval closes its notification, and no other', async ({ push }) => {
  await push.request('a', 'hash');
  await push.request('b', 'hash');
  await expect.poll(() => push.shown()).toHaveLength(2);
  await push.deliver({ type: 'approval.settled', id: 'a', title: 'Refund an order', body: 'Denied by bob' });
  await expect.poll(() => push.shown()).toMatchObject([{ tag: 'b' }]);
});

test('a click leads the open inbox to the approval', async ({ people, push, inbox }) => {
  people.approvals.put(approval('a'));
  people.approvals.put(approval('b'));
  await push.request('b', approval('b').inputHash);
  await push.click();
  await expect(inbox.page).toHaveURL(`${inbox.url}/inbox?approval=b`);
  await expect(inbox.card('Refund order b')).toBeFocused();
});

test('a click opens the approval in a window if no inbox is open', async ({ push, inbox }) => {
  await push.noteWindows();
  await push.request('a', 'hash');
  await inbox.page.goto(`${inbox.url}/gallery`);
  await push.click();
  expect(await push.opened()).toEqual([`${inbox.url}/inbox?approval=a`]);
});

test('without a URL, a click leads to the approval on the same site', async ({ people, push, inbox }) => {
  people.approvals.put(approval('a'));
  await push.deliver({
    type: 'approval.requested',
    id: 'a',
    inputHash: 'hash',
    title: 'T',
    body: '',
    url: null,
  });
  await push.click();
  await expect(inbox.page).toHaveURL(`${inbox.url}/inbox?approval=a`);
});

for (const { action, approved, outcome } of [
  { action: 'approve', approved: true, outcome: 'Approved by you' },
  { action: 'deny', approved: false, outcome: 'Denied by you' },
] as const)
  test(`the button to ${action} votes about the input that was shown`, async ({ people, push, inbox }) => {
    const shown = approval('a');
    people.approvals.put(shown);
    await push.request('a', shown.inputHash);
    await push.click(action);
    await expect(inbox.card('Refund order a')).toContainText(outcome);
    await expect(inbox.page).toHaveURL(`${inbox.url}/inbox`);
    expect(people.approvals.requests.filter((request) => request.startsWith('POST'))).toEqual([
      `POST /api/approvals/a {"approved":${approved},"inputHash":"${shown.inputHash}"}`,
    ]);
  });

test('a vote that the server refuses leads to the approval', async ({ people, push, inbox }) => {
  people.mayLog.push(/Failed to load resource/);
  people.approvals.put(approval('a'));
  await push.request('a', 'the hash of an earlier input');
  await push.click('approve');
  await expect(inbox.page).toHaveURL(`${inbox.url}/inbox?approval=a`);
  await expect(
    inbox.card('Refund order a').getByRole('button', { name: 'Approve', exact: true }),
  ).toBeVisible();
});
