// @ts-check
// Who is asking, by tokens that a well-known library has made with keys that an issuer publishes, and by a
// proxy's header.

import assert from 'node:assert/strict';
import http from 'node:http';
import { once } from 'node:events';
import { test } from 'node:test';
import { SignJWT, UnsecuredJWT, exportJWK, exportSPKI, generateKeyPair } from 'jose';
import { Server } from '../harness/server.mjs';
import { until } from '../harness/until.mjs';

/**
 * @typedef {{ id: string, alg: string, publicKey: import('jose').CryptoKey, privateKey:
 * import('jose').CryptoKey }} Key
 */

const ISSUER = 'https://issuer.example';
const AUDIENCE = 'fermata';

/** Publishes keys, as an issuer of tokens does. */
class Issuer {
  /** @type {object[]} */
  published = [];
  asked = 0;
  #server = http.createServer((_, response) => {
    this.asked += 1;
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ keys: this.published }));
  });

  static async start() {
    const issuer = new Issuer();
    issuer.#server.listen(0, '127.0.0.1');
    await once(issuer.#server, 'listening');
    return issuer;
  }

  get url() {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the issuer is not listening');
    return `http://127.0.0.1:${address.port}/jwks`;
  }

  /** @param {Key[]} keys */
  async publish(...keys) {
    this.published = await Promise.all(
      keys.map(async ({ id, publicKey }) => ({ ...(await exportJWK(publicKey)), kid: id })),
    );
  }

  async stop() {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

/** @param {string} id @param {string} alg @returns {Promise<Key>} */
async function makeKey(id, alg) {
  return { id, alg, ...(await generateKeyPair(alg, { extractable: true })) };
}

/** @param {Key} key @param {Record<string, unknown>} [claims] @param {Record<string, unknown>} [header] */
async function sign({ id, alg, privateKey }, claims = {}, header = {}) {
  const all = {
    sub: 'alice',
    iss: ISSUER,
    aud: AUDIENCE,
    exp: Math.floor(Date.now() / 1000) + 60,
    ...claims,
  };
  const kept = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
  return new SignJWT(kept).setProtectedHeader({ alg, kid: id, ...header }).sign(privateKey);
}

/** @param {Server} server @param {Record<string, string>} headers */
async function chats(server, headers) {
  const response = await fetch(`${server.url}/api/chats`, { headers });
  return {
    status: response.status,
    headers: response.headers,
    body: /** @type {any} */ (await response.json()),
  };
}

/** @param {Server} server @param {string} token */
async function ask(server, token) {
  return chats(server, { authorization: `Bearer ${token}` });
}

/** @param {Issuer} issuer */
const settings = (issuer) => ({
  FERMATA_AUTH: 'jwt',
  FERMATA_JWKS_URL: issuer.url,
  FERMATA_JWT_ISSUER: ISSUER,
  FERMATA_JWT_AUDIENCE: AUDIENCE,
});

test(
  'tokens of every kind of key name their owners, and chats are their own',
  { timeout: 60_000 },
  async () => {
    const issuer = await Issuer.start();
    const keys = await Promise.all(
      ['RS256', 'PS384', 'ES256', 'ES384', 'EdDSA'].map((alg, place) => makeKey(`key-${place}`, alg)),
    );
    await issuer.publish(...keys);
    const server = await Server.start(settings(issuer));
    try {
      for (const key of keys) {
        const answer = await ask(server, await sign(key));
        assert.equal(answer.status, 200, `${key.alg}: ${JSON.stringify(answer.body)}`);
      }
      const [key] = /** @type {[Key]} */ (keys);
      const body = JSON.stringify({ id: 'c', messages: [{ role: 'user', content: 'hi' }] });
      const authorization = `Bearer ${await sign(key)}`;
      const posted = await fetch(`${server.url}/api/chat`, {
        method: 'POST',
        body,
        headers: { authorization },
      });
      assert.equal(posted.status, 200);
      await posted.text();
      const others = await sign(key, { sub: 'auth0|bob@example.com' });
      assert.deepEqual((await ask(server, others)).body, { chats: [] });
      const view = await fetch(`${server.url}/api/chat/c`, {
        headers: { authorization: `Bearer ${others}` },
      });
      assert.equal(view.status, 404);
      assert.equal(issuer.asked, 1, 'the keys are fetched once');
    } finally {
      await Promise.all([server.discard(), issuer.stop()]);
    }
  },
);

test(
  'what is not signed by the issuer, for this server and for now is refused with the reason',
  { timeout: 60_000 },
  async () => {
    const issuer = await Issuer.start();
    const [key, stranger] = await Promise.all([makeKey('key', 'RS256'), makeKey('key', 'RS256')]);
    const curve = await makeKey('curve', 'ES256');
    await issuer.publish(key, curve);
    const server = await Server.start(settings(issuer));
    const past = Math.floor(Date.now() / 1000) - 120;
    const pem = new TextEncoder().encode(await exportSPKI(key.publicKey));
    const confused = (/** @type {Uint8Array} */ secret) =>
      new SignJWT({ sub: 'alice', iss: ISSUER, aud: AUDIENCE })
        .setProtectedHeader({ alg: 'HS256', kid: 'key' })
        .setExpirationTime('1m')
        .sign(secret);
    const claims = { sub: 'alice', iss: ISSUER, aud: AUDIENCE, exp: past + 600 };
    try {
      /** @type {[string, string, RegExp][]} */
      const refused = [
        ['another key of the same name', await sign(stranger), /signature is wrong/],
        ['another audience', await sign(key, { aud: 'other' }), /aud/],
        ['no audience', await sign(key, { aud: undefined }), /aud/],
        ['another issuer', await sign(key, { iss: 'https://other.example' }), /iss/],
        ['expired', await sign(key, { exp: past }), /expired/],
        ['for ever', await sign(key, { exp: undefined }), /exp/],
        ['not yet', await sign(key, { nbf: past + 600 }), /not valid yet/],
        ['for nobody', await sign(key, { sub: '' }), /sub/],
        ['the public key as a secret', await confused(pem), /no key that its issuer publishes/],
        ['no signature', new UnsecuredJWT(claims).encode(), /not a JSON Web Token/],
        [
          'the key of another kind',
          await sign({ ...stranger, id: 'curve' }),
          /no key that its issuer publishes/,
        ],
      ];
      for (const [name, token, reason] of refused) {
        const { status, headers, body } = await ask(server, token);
        assert.equal(status, 401, `${name}: ${JSON.stringify(body)}`);
        assert.match(body.detail, reason, name);
        assert.match(
          headers.get('www-authenticate') ?? '',
          /^Bearer error="invalid_token", error_description="[^"]+"$/,
          name,
        );
      }
      assert.equal((await ask(server, await sign(key))).status, 200);
      assert.ok(!server.log.includes(await exportSPKI(key.publicKey)));
    } finally {
      await Promise.all([server.discard(), issuer.stop()]);
    }
  },
);

test('keys may change at any time, and the issuer may be away', { timeout: 60_000 }, async () => {
  const issuer = await Issuer.start();
  const [first, second] = await Promise.all([makeKey('first', 'ES256'), makeKey('second', 'EdDSA')]);
  await issuer.publish(first);
  const server = await Server.start(settings(issuer));
  try {
    assert.equal((await ask(server, await sign(first))).status, 200);
    assert.equal((await ask(server, await sign(second))).status, 401);
    await issuer.publish(second);
    assert.equal((await ask(server, await sign(second))).status, 200);
    assert.equal((await ask(server, await sign(first))).status, 401);
    await issuer.stop();
    assert.equal((await ask(server, await sign(second))).status, 200);
    assert.equal((await ask(server, await sign(first))).status, 401);
  } finally {
    await server.discard();
  }
});

test('as long as there are no keys, that is said', { timeout: 60_000 }, async () => {
  const issuer = await Issuer.start();
  const server = await Server.start(settings(issuer));
  const key = await makeKey('key', 'ES256');
  try {
    const refused = await ask(server, await sign(key));
    assert.deepEqual([refused.status, refused.body.code], [503, 'unavailable']);
    assert.ok(refused.headers.has('retry-after'));
    await until(() => server.log.includes('the keys of tokens cannot be fetched'), 'the log to say so');
    await issuer.publish(key);
    assert.equal((await ask(server, await sign(key))).status, 200);
  } finally {
    await Promise.all([server.discard(), issuer.stop()]);
  }
});

test('a header names the owner if the proxy is the one that was named', { timeout: 60_000 }, async () => {
  const header = { FERMATA_USER_HEADER: 'x-forwarded-user' };
  const near = await Server.start({ ...header, FERMATA_TRUSTED_PROXIES: '127.0.0.1' });
  const far = await Server.start({ ...header, FERMATA_TRUSTED_PROXIES: '10.0.0.7' });
  try {
    assert.equal((await chats(near, { 'x-forwarded-user': 'alice' })).status, 200);
    assert.equal((await chats(near, {})).status, 401);
    assert.equal((await chats(far, { 'x-forwarded-user': 'alice' })).status, 403);
    assert.equal(
      (await chats(far, { 'x-forwarded-user': 'alice', 'x-forwarded-for': '10.0.0.7' })).status,
      403,
    );
    assert.equal((await chats(far, {})).status, 401);
  } finally {
    await Promise.all([near.discard(), far.discard()]);
  }
});
