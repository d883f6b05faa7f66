// Requests about push notifications. The page itself registers the service worker and subscribes the browser.

import { FermataError, type Server } from './server.js';

/** The browsers that show notifications to the person. */
export interface Push {
  /** Reads the `applicationServerKey` for a subscription; `undefined` if the server sends no notifications to browsers. */
  key(): Promise<string | undefined>;
  /** Registers a browser. The same subscription again changes nothing. */
  add(subscription: PushSubscriptionJSON): Promise<void>;
  /** Removes the browser of a subscription's endpoint, if it is registered. */
  remove(endpoint: string): Promise<void>;
}

export function pushOf(server: Server): Push {
  const url = server.beside('push');
  return {
    key: () => unlessUnknown(server.json<{ publicKey: string }>(url).then(({ publicKey }) => publicKey)),
    add: (subscription) => server.json(url, { method: 'POST', body: JSON.stringify({ subscription }) }),
    remove: (endpoint) =>
      unlessUnknown(server.json(url, { method: 'DELETE', body: JSON.stringify({ endpoint }) })),
  };
}

/** Awaits a reply; `undefined` if the server answers 404. */
async function unlessUnknown<T>(reply: Promise<T>): Promise<T | undefined> {
  try {
    return await reply;
  } catch (error) {
    if (error instanceof FermataError && error.status === 404) return undefined;
    throw error;
  }
}
