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
    response.writeHead(status, { 'content-type': 'application/problem+json' }).end(JSON.stringify(body));
    // As Fermata does, it receives what is left of the body.
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
    const proxy = await Nginx.start(...servers.map(addressOf));
    try {
      await check(proxy);
    } finally {
      await proxy.stop();
      close(...servers);
    }
  });
}

/** @type {(server: http.Server) => Promise<http.Server>} */
const listen = (server) => new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));

/** @param {http.Server} server */
const addressOf = (server) =>
  `127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`;

/** @param {...http.Server} servers */
function close(...servers) {
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
}

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
    'asks an instance who sends a large body before it has read it',
    [answers(401, { code: 'unauthorized' })],
    async (proxy) => {
      // Nothing but the announcement is ever sent.
      for (const path of ['/api/chat', '/chat/tool-result', '/api/chat/tool-result']) {
        const got = await announce(proxy, 1_000_000, path);
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

  const deletes = { method: 'DELETE' };
  const small = post('{"message":{"role":"user","content":"hello"}}');
  const large = post(Buffer.alloc(2_000_000, ' '));
  const stop = { method: 'POST' };
  for (const [what, init] of Object.entries({ 'a question': {}, 'a small post': small, deletes, stop }))
    test(`asks the other instance where one is ending: ${what}`, { skip: NO_NGINX ?? false }, async () => {
      /** @type {string[]} */
      const done = [];
      const ending = await listen(http.createServer(answers(503, { code: 'unavailable' })));
      const living = await listen(
        http.createServer(async (request, response) => {
          if (request.url?.endsWith('/stream')) return void response.writeHead(200).write('data: {}\n\n');
          let body = '';
          for await (const bytes of request) body += bytes;
          done.push(`${request.method} ${body}`);
          response.end('{}');
        }),
      );
      const proxy = await Nginx.start(addressOf(ending), addressOf(living));
      const leave = new AbortController();
      try {
        // The living one has all of the streams.
        for (let opened = 0; opened < 20; opened += 1)
          assert.equal((await fetch(`${proxy.url}/api/chat/a/stream`, { signal: leave.signal })).status, 200);
        const asked = Array.from({ length: 30 }, () => ask(`${proxy.url}/api/chat`, init));
        const got = await Promise.all(asked);
        assert.deepEqual(new Set(got.map(({ status }) => status)), new Set([200]));
        const { method = 'GET', body = '' } = /** @type {RequestInit} */ (init);
        assert.deepEqual(done, Array(30).fill(`${method} ${body}`));
      } finally {
        leave.abort();
        await proxy.stop();
        close(ending, living);
      }
    });

  /** @type {string[]} */
  const asked = [];
  const bothEnd = [1, 2].map(
    (place) => (/** @type {http.IncomingMessage} */ request, /** @type {any} */ response) => {
      asked.push(`${place} ${request.method}`);
      answers(503, { code: 'unavailable', detail: 'A sentence of its own.' })(request, response);
    },
  );
  behind('passes on what the last instance says where all of them are ending', bothEnd, async (proxy) => {
    for (const init of [{}, small, large]) {
      const got = await ask(`${proxy.url}/api/chat`, init);
      assert.deepEqual(
        [got.status, got.problem],
        [503, { code: 'unavailable', detail: 'A sentence of its own.' }],
      );
    }
    const [reads, posts] = ['GET', 'POST'].map((method) => asked.filter((one) => one.endsWith(method)));
    assert.deepEqual(reads?.toSorted(), ['1 GET', '2 GET']);
    // The body of the large one is gone, and its sender sends it again.
    assert.equal(posts?.length, 3 + 1);
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
