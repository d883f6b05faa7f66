// Requests about push notifications, against a fake server.

import { expect, test } from 'vitest';
import { FermataError, fermata } from '../../src/index.js';
import { problem } from '../approvals';

const SUBSCRIPTION = { endpoint: 'https://push.example.com/1', keys: { p256dh: 'B', auth: 'A' } };

/** The requests about push of a page that has logged in, to a server that gives one reply. */
function open(reply: () => Response) {
  const requests: string[] = [];
  const { push } = fermata({
    headers: { authorization: 'Bearer alice' },
    fetch: (url, init) => {
      const login = new Headers(init?.headers).get('authorization');
      const body = typeof init?.body === 'string' ? ` ${init.body}` : '';
      requests.push(`${init?.method ?? 'GET'} ${url as string} of ${login}${body}`);
      return Promise.resolve(reply());
    },
  });
  return { push, requests };
}

test('the key is read', async () => {
  const { push, requests } = open(() => Response.json({ publicKey: 'BKey' }));
  expect(await push.key()).toBe('BKey');
  expect(requests).toEqual(['GET /api/push of Bearer alice']);
});

test('a browser is registered and removed', async () => {
  const { push, requests } = open(() => new Response(null, { status: 204 }));
  await push.add(SUBSCRIPTION);
  await push.remove(SUBSCRIPTION.endpoint);
  expect(requests).toEqual([
    `POST /api/push of Bearer alice {"subscription":${JSON.stringify(SUBSCRIPTION)}}`,
    `DELETE /api/push of Bearer alice {"endpoint":"${SUBSCRIPTION.endpoint}"}`,
  ]);
});

test('a server without the channel has no key, and no browser to remove', async () => {
  const { push } = open(() => problem(404, 'not_found', 'There is no channel of kind web_push.'));
  expect(await push.key()).toBeUndefined();
  await push.remove(SUBSCRIPTION.endpoint);
  await expect(push.add(SUBSCRIPTION)).rejects.toBeInstanceOf(FermataError);
});

test('a refusal rejects', async () => {
  const { push } = open(() => problem(400, 'invalid_request', 'You have registered 20 browsers.'));
  await expect(push.add(SUBSCRIPTION)).rejects.toThrow('You have registered 20 browsers.');
});
