// Push notifications on this device: the browser's subscription, and its registration with the server. Knows nothing of React.

import type { Push } from 'fermata-chat';

/** The browser allows no notifications, or its push service fails. */
export class PushError extends Error {
  constructor(readonly code: 'notAllowed' | 'noService') {
    super(code);
  }
}

const WORKER = '/push-worker.js';
/** The time that the browser may take to start the worker and to reach its push service, in milliseconds. */
const PATIENCE = 30_000;

/** Returns `true` if the browser can show push notifications. Only pages over HTTPS and of this computer can. */
export const canNotify = () =>
  'serviceWorker' in navigator && 'PushManager' in window && 'Notification' in window;

/**
 * Returns `true` if notifications are on. The subscription of an earlier visit is registered again, because the server may not know it any
 * more.
 */
export async function resume(push: Push, key: string): Promise<boolean> {
  // A browser that cannot be asked has no subscription. The person has done nothing that an error could be about.
  const known = await fromBrowser(current()).catch(() => null);
  if (known === null) return false;
  await push.add((await fromBrowser(subscribe(key))).toJSON());
  return true;
}

/** Turns notifications on. The browser may ask the person first. */
export async function turnOn(push: Push, key: string): Promise<void> {
  if ((await Notification.requestPermission()) !== 'granted') throw new PushError('notAllowed');
  const subscription = await fromBrowser(subscribe(key));
  try {
    await push.add(subscription.toJSON());
  } catch (error) {
    await subscription.unsubscribe().catch(() => undefined);
    throw error;
  }
}

/** Turns notifications off. */
export async function turnOff(push: Push): Promise<void> {
  const subscription = await fromBrowser(current());
  if (subscription === null) return;
  await fromBrowser(subscription.unsubscribe());
  // The browser shows nothing from here on. If this request fails, the server learns it from the push service.
  await push.remove(subscription.endpoint).catch(() => undefined);
}

async function current(): Promise<PushSubscription | null> {
  const registration = await navigator.serviceWorker.getRegistration(WORKER);
  return (await registration?.pushManager.getSubscription()) ?? null;
}

/** Returns a subscription with this key. A subscription with another key, of a server whose database was replaced, ends. */
async function subscribe(key: string): Promise<PushSubscription> {
  await navigator.serviceWorker.register(WORKER);
  // A browser subscribes only with a worker that is active.
  const { pushManager } = await navigator.serviceWorker.ready;
  const known = await pushManager.getSubscription();
  if (known !== null) {
    const own = known.options.applicationServerKey;
    // Not every browser names the key.
    if (own === null || base64url(own) === key) return known;
    await known.unsubscribe();
  }
  return pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
}

const base64url = (bytes: ArrayBuffer) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');

/** Awaits a step of the browser. If it fails or takes too long, the error is `noService`. */
async function fromBrowser<T>(step: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const end = new Promise<never>((_, reject) => {
    timer = setTimeout(reject, PATIENCE);
  });
  try {
    return await Promise.race([step, end]);
  } catch {
    throw new PushError('noService');
  } finally {
    clearTimeout(timer);
  }
}
