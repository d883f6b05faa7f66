// Push notifications on this device, in a browser whose push service is made up.

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { FermataError, type Push } from 'fermata-chat';
import { canNotify, PushError, resume, turnOff, turnOn } from '../push';

const KEY = 'BAECAw_-';
const KEY_BYTES = new Uint8Array([4, 1, 2, 3, 15, 254]);

/** A browser with a worker and at most one subscription. */
class Browser {
  permission: NotificationPermission = 'granted';
  subscription: ReturnType<Browser['subscriptionWith']> | null = null;
  subscribed: string[] = [];
  /** What the push service does instead of a subscription. */
  instead: (() => Promise<never>) | undefined;
  isRegistered = false;

  subscriptionWith(key: Uint8Array | null) {
    const endpoint = `https://push.example.com/${this.subscribed.length}`;
    return {
      endpoint,
      options: { applicationServerKey: key?.buffer ?? null },
      toJSON: () => ({ endpoint }),
      unsubscribe: () => {
        this.subscription = null;
        return Promise.resolve(true);
      },
    };
  }

  readonly registration = {
    pushManager: {
      getSubscription: () => Promise.resolve(this.subscription),
      subscribe: async ({ applicationServerKey }: { applicationServerKey: string }) => {
        await this.instead?.();
        this.subscribed.push(applicationServerKey);
        this.subscription = this.subscriptionWith(KEY_BYTES);
        return this.subscription;
      },
    },
  };

  readonly serviceWorker = {
    ready: Promise.resolve(this.registration),
    getRegistration: () => Promise.resolve(this.isRegistered ? this.registration : undefined),
    register: (url: string) => {
      expect(url).toBe('/push-worker.js');
      this.isRegistered = true;
      return Promise.resolve(this.registration);
    },
  };
}

/** A server that knows the endpoints of browsers. */
class Devices implements Push {
  readonly endpoints: unknown[] = [];
  error: Error | undefined;

  key = () => Promise.resolve(KEY);
  add = ({ endpoint }: PushSubscriptionJSON) => {
    if (this.error !== undefined) return Promise.reject(this.error);
    this.endpoints.push(endpoint);
    return Promise.resolve();
  };
  remove = (endpoint: string) => {
    if (this.error !== undefined) return Promise.reject(this.error);
    this.endpoints.splice(this.endpoints.indexOf(endpoint), 1);
    return Promise.resolve();
  };
}

let browser: Browser;
let devices: Devices;
beforeEach(() => {
  browser = new Browser();
  devices = new Devices();
  vi.stubGlobal('navigator', { serviceWorker: browser.serviceWorker });
  vi.stubGlobal('PushManager', {});
  vi.stubGlobal('Notification', { requestPermission: () => Promise.resolve(browser.permission) });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** Turns notifications on, as an earlier visit did. */
async function visitedBefore() {
  await turnOn(devices, KEY);
  devices.endpoints.length = 0;
}

it('needs a browser with service workers, push and notifications', () => {
  expect(canNotify()).toBe(true);
  vi.stubGlobal('navigator', {});
  expect(canNotify()).toBe(false);
});

describe('turning notifications on', () => {
  it('subscribes with the key and registers the subscription', async () => {
    await turnOn(devices, KEY);
    expect(browser.subscribed).toEqual([KEY]);
    expect(devices.endpoints).toEqual(['https://push.example.com/1']);
  });

  for (const permission of ['denied', 'default'] as const)
    it(`fails before anything is registered if the permission is ${permission}`, async () => {
      browser.permission = permission;
      await expect(turnOn(devices, KEY)).rejects.toEqual(new PushError('notAllowed'));
      expect(browser.isRegistered).toBe(false);
    });

  it('leaves no subscription if the server refuses it', async () => {
    devices.error = new FermataError(400, 'invalid_request', 'You have registered 20 browsers.');
    await expect(turnOn(devices, KEY)).rejects.toBe(devices.error);
    expect(browser.subscription).toBeNull();
  });

  it('fails if the push service does', async () => {
    browser.instead = () => Promise.reject(new DOMException('push service error', 'AbortError'));
    await expect(turnOn(devices, KEY)).rejects.toEqual(new PushError('noService'));
  });

  it('does not wait without end for a push service', async () => {
    vi.useFakeTimers();
    browser.instead = () => new Promise(() => undefined);
    const outcome = expect(turnOn(devices, KEY)).rejects.toEqual(new PushError('noService'));
    await vi.advanceTimersByTimeAsync(30_000);
    await outcome;
  });
});

describe('the next visit', () => {
  it('is off if nothing was turned on', async () => {
    expect(await resume(devices, KEY)).toBe(false);
    expect(browser.isRegistered).toBe(false);
  });

  it('registers the same subscription again', async () => {
    await visitedBefore();
    expect(await resume(devices, KEY)).toBe(true);
    expect(browser.subscribed).toEqual([KEY]);
    expect(devices.endpoints).toEqual(['https://push.example.com/1']);
  });

  it('subscribes again if the server has another key', async () => {
    await visitedBefore();
    expect(await resume(devices, 'BOther')).toBe(true);
    expect(browser.subscribed).toEqual([KEY, 'BOther']);
    expect(devices.endpoints).toEqual(['https://push.example.com/2']);
  });

  it('keeps a subscription whose key the browser does not name', async () => {
    await visitedBefore();
    browser.subscription = browser.subscriptionWith(null);
    expect(await resume(devices, KEY)).toBe(true);
    expect(browser.subscribed).toEqual([KEY]);
  });

  it('keeps the subscription if the server cannot be reached', async () => {
    await visitedBefore();
    devices.error = new TypeError('Failed to fetch');
    await expect(resume(devices, KEY)).rejects.toBe(devices.error);
    expect(browser.subscription).not.toBeNull();
  });
});

describe('turning notifications off', () => {
  it('ends the subscription and removes it from the server', async () => {
    await turnOn(devices, KEY);
    await turnOff(devices);
    expect(browser.subscription).toBeNull();
    expect(devices.endpoints).toEqual([]);
  });

  it('ends the subscription even if the server cannot be reached', async () => {
    await turnOn(devices, KEY);
    devices.error = new TypeError('Failed to fetch');
    await turnOff(devices);
    expect(browser.subscription).toBeNull();
  });
});
