// The service worker of push notifications. It shows an approval that waits, and closes it once it is settled, wherever that was.
//
// A button decides only about the input that the notification was made for. If the server refuses the vote, or wants a token that only a
// page has, the worker opens the inbox.

const SETTLED = 'approval.settled';

self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));

self.addEventListener('push', (event) => {
  const message = event.data?.json();
  if (message?.id) event.waitUntil(message.type === SETTLED ? settle(message) : show(message));
});

self.addEventListener('notificationclick', (event) => {
  const { notification, action } = event;
  notification.close();
  event.waitUntil(action === '' ? open(notification.data.url) : decide(notification.data, action));
});

function show({ id, inputHash, title, body, url }) {
  return self.registration.showNotification(title, {
    body,
    tag: id,
    renotify: true,
    requireInteraction: true,
    actions: [
      { action: 'approve', title: 'Approve' },
      { action: 'deny', title: 'Deny' },
    ],
    // A server without `public_url` sends no URL.
    data: { id, inputHash, url: url ?? `/inbox?approval=${encodeURIComponent(id)}` },
  });
}

// Browsers demand that each message shows something, so the outcome takes the place of the notification before it is closed.
async function settle({ id, title, body }) {
  const shown = await self.registration.getNotifications({ tag: id });
  if (shown.length === 0) return;
  await self.registration.showNotification(title, { body, tag: id, silent: true });
  for (const notification of await self.registration.getNotifications({ tag: id })) notification.close();
}

async function decide({ id, inputHash, url }, action) {
  const body = JSON.stringify({ approved: action === 'approve', inputHash });
  const headers = { 'content-type': 'application/json' };
  const path = `/api/approvals/${encodeURIComponent(id)}`;
  const answer = await fetch(path, { method: 'POST', headers, body }).catch(() => undefined);
  if (!answer?.ok) await open(url);
}

async function open(url) {
  const target = new URL(url, self.location.origin);
  const pages = await self.clients.matchAll({ type: 'window' });
  const inbox = pages.find((page) => new URL(page.url).pathname === target.pathname);
  if (!inbox) return self.clients.openWindow(target.href);
  // A browser refuses this if the answer of the server took too long after the click.
  await inbox.focus().catch(() => undefined);
  if (inbox.url !== target.href) await inbox.navigate(target.href);
}
