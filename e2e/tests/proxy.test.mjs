// @ts-check
// What `deploy/nginx.conf` does with requests, in front of instances that a test plays itself.

import assert from 'node:assert/strict';
import http from 'node:http';
import { describe, test } from 'node:test';
import { NO_NGINX, Nginx } from '../harness/nginx.mjs';

/** @typedef {(request: http.IncomingMessage, response: http.ServerResponse) => void} Instance */

/** @type {(status: number, body?: object) => Instance} */
const answers =
  (status, body = {}) =>
  (request, response) => {
    // Nobody waits for what is left of the body.
    response
      .writeHead(status, { 'content-type': 'application/problem+json', connection: 'close' })
      .end(JSON.stringify(body));
    request.resume();
  };

/**
 * A proxy in front of instances that behave like this.
 *
 * @param {string} name
 * @param {Instance[]} instances
 * @param {(proxy: Nginx) => Promise<void>} check
 */
function behind(name, instances, check) {
  test(name, { skip: NO_NGINX ?? false }, async () => {
    const servers = await Promise.all(instances.map((instance) => listen(http.createServer(instance))));
    const addresses = servers.map(
      (server) => `127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`,
    );
    const proxy = await Nginx.start(...addresses);
    try {
      await check(proxy);
    } finally {
      await proxy.stop();
      for (const server of servers) {
        server.closeAllConnections();
        server.close();
      }
    }
  });
}

/** @type {(server: http.Server) => Promise<http.Server>} */
const listen = (server) => new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));

/** @param {string} url @param {RequestInit} [init] */
async function ask(url, init) {
  const response = await fetch(url, init);
  const text = await response.text();
  const kind = response.headers.get('content-type');
  return { status: response.status, kind, problem: JSON.parse(text), headers: response.headers };
}

const post = (/** @type {string | Buffer} */ body) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body,
});

describe('the proxy', { concurrency: 2 }, () => {
  behind(
    'refuses what is far too large by itself, in the form that clients know',
    [answers(500)],
    async (proxy) => {
      const got = await announce(proxy, 300_000_000);
      assert.equal(got.status, 413);
      assert.equal(got.problem.code, 'too_large');
      assert.match(got.problem.detail, /11 MB/);
    },
  );

  behind(
    'asks an instance who sends a body before it has read it',
    [answers(401, { code: 'unauthorized' })],
    async (proxy) => {
      // Nothing but the announcement is ever sent.
      for (const path of ['/api/chat', '/chat/tool-result', '/api/chat/tool-result']) {
        const got = await announce(proxy, 9_000_000, path);
        assert.deepEqual([got.status, got.problem.code], [401, 'unauthorized'], path);
      }
    },
  );

  for (const [status, code] of /** @type {const} */ ([
    [413, 'too_large'],
    [429, 'too_many_runs'],
  ])) {
    behind(
      `passes on what an instance says itself: ${status}`,
      [answers(status, { code, detail: 'A sentence of its own.' })],
      async (proxy) => {
        const got = await ask(`${proxy.url}/api/chat`, post('{}'));
        assert.deepEqual([got.status, got.problem], [status, { code, detail: 'A sentence of its own.' }]);
      },
    );
  }

  const ending = () => {
    /** @type {string[]} */
    const asked = [];
    /** @type {(name: string, instance: Instance) => Instance} */
    const noted = (name, instance) => (request, response) => {
      asked.push(`${name} ${request.method}`);
      instance(request, response);
    };
    return { asked, instances: [noted('first', answers(503)), noted('second', answers(503))] };
  };

  const reads = ending();
  behind('puts a question once more where an instance says 503', reads.instances, async (proxy) => {
    assert.equal((await ask(`${proxy.url}/api/chat/a`)).status, 503);
    assert.deepEqual(reads.asked.toSorted(), ['first GET', 'second GET']);
  });

  const posts = ending();
  behind('has a post sent again by whoever has its body', posts.instances, async (proxy) => {
    const got = await ask(`${proxy.url}/api/chat`, post('{"message":{"role":"user","content":"hello"}}'));
    assert.deepEqual([got.status, got.problem.code, posts.asked.length], [503, 'unavailable', 1]);
  });

  test(
    'says that nothing was done where no instance can be reached',
    { skip: NO_NGINX ?? false },
    async () => {
      const nobody = await listen(http.createServer());
      const { port } = /** @type {import('node:net').AddressInfo} */ (nobody.address());
      await new Promise((resolve) => nobody.close(resolve));
      const proxy = await Nginx.start(`127.0.0.1:${port}`);
      try {
        const got = await ask(`${proxy.url}/api/chat`, post('{}'));
        assert.deepEqual(
          [got.status, got.kind, got.problem.code],
          [503, 'application/problem+json', 'unavailable'],
        );
        assert.equal(got.headers.get('retry-after'), '2');
      } finally {
        await proxy.stop();
      }
    },
  );

  for (const [how, instance] of /** @type {[string, Instance][]} */ ([
    ['fails on the way', (request) => request.socket.destroy()],
    ['says so itself', answers(504, { code: 'unclear' })],
  ])) {
    behind(`says that nobody can know where an instance ${how}`, [instance], async (proxy) => {
      const got = await ask(`${proxy.url}/api/chat`, post('{}'));
      assert.deepEqual([got.status, got.problem.code], [504, 'unclear']);
    });
  }

  behind('refuses one address that has too much open', [() => {}], async (proxy) => {
    const leave = new AbortController();
    const open = Array.from({ length: 300 }, () =>
      fetch(`${proxy.url}/api/chat/a/stream`, { signal: leave.signal }),
    );
    const refused = await Promise.race(open);
    assert.equal(refused.status, 429);
    assert.match(await refused.text(), /"code":"too_many_requests"/);
    leave.abort();
    await Promise.allSettled(open);
  });

  behind(
    'believes nobody who names other addresses, and keeps the numbers of instances',
    [
      (request, response) => {
        response.end(JSON.stringify(request.headers));
      },
    ],
    async (proxy) => {
      const got = await ask(`${proxy.url}/api/chats`, { headers: { 'x-forwarded-for': '10.0.0.1' } });
      assert.equal(got.problem['x-forwarded-for'], '127.0.0.1');
      assert.equal((await fetch(`${proxy.url}/metrics`)).status, 404);
    },
  );
});

/**
 * Announces a body, sends nothing of it, and reads the answer.
 *
 * @param {Nginx} proxy
 * @param {number} length
 * @returns {Promise<{ status: number | undefined, problem: { code: string, detail: string } }>}
 */
function announce(proxy, length, path = '/api/chat') {
  return new Promise((resolve, reject) => {
    const request = http.request(`${proxy.url}${path}`, {
      method: 'POST',
      headers: { 'content-length': length, 'content-type': 'application/json' },
    });
    request.on('error', reject);
    request.on('response', async (response) => {
      let text = '';
      for await (const bytes of response) text += bytes;
      resolve({ status: response.statusCode, problem: JSON.parse(text) });
      request.destroy();
    });
    request.flushHeaders();
  });
}
