// @ts-check
// Secrets are replaced while two instances serve, as docs/guide/rotation.md says.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { SignJWT, exportJWK, generateKeyPair } from 'jose';
import { clustered } from '../harness/cluster.mjs';
import { calls, says } from '../harness/fake-openai.mjs';
import { freePort } from '../harness/ports.mjs';
import { BROWSER_TOOLS } from '../harness/scenario.mjs';
import { Server } from '../harness/server.mjs';
import { until } from '../harness/until.mjs';

/** @typedef {import('../harness/cluster.mjs').Cluster} Cluster */

const secret = () => randomBytes(32).toString('hex');

/** Has an instance read its files again, and waits until it has. @param {Server} server */
async function reload(server) {
  const before = server.log.length;
  server.signal('SIGHUP');
  await until(
    () => /settings (again|were not reloaded)[^\n]*\n/.test(server.log.slice(before)),
    () => server.log,
  );
}

/** @param {Server} server @param {string} token */
async function statusWith(server, token) {
  const response = await fetch(`${server.url}/api/chats`, { headers: { authorization: `Bearer ${token}` } });
  await response.arrayBuffer();
  return response.status;
}

/** @param {string} name */
function fileOf(name) {
  const file = path.join(os.tmpdir(), `fermata-${name}-${process.pid}-${randomBytes(4).toString('hex')}`);
  return {
    file,
    /** @param {string} text */
    write: (text) => writeFileSync(file, text, { mode: 0o600 }),
    remove: () => rmSync(file, { force: true }),
  };
}

const tokens = fileOf('tokens');
const [oldToken, newToken] = [secret(), secret()];
const hash = (/** @type {string} */ token) => createHash('sha256').update(token).digest('hex');

clustered(
  'tokens come from a file, as hashes, and are replaced by a signal',
  {
    settings: () => {
      tokens.write(`alice:sha256:${hash(oldToken)}\n`);
      return { FERMATA_AUTH: 'token', FERMATA_TOKENS_FILE: tokens.file };
    },
  },
  async (cluster) => {
    /** @param {string} text @param {[number, number]} expected for the old and the new token */
    const check = async (text, expected) => {
      tokens.write(text);
      for (const server of cluster.servers) {
        await reload(server);
        assert.deepEqual([await statusWith(server, oldToken), await statusWith(server, newToken)], expected);
        assert.ok(!server.log.includes(oldToken) && !server.log.includes(hash(oldToken)));
      }
    };
    try {
      await check(`alice:sha256:${hash(oldToken)}\n`, [200, 401]);
      await check(`alice:${newToken}\nalice:sha256:${hash(oldToken)}\n`, [200, 200]);
      await check(`alice:sha256:${hash(newToken)}\n`, [401, 200]);
      assert.equal(await statusWith(cluster.server(1), hash(newToken)), 401, 'a hash is no token');
    } finally {
      tokens.remove();
    }
  },
);

test('the secret of JSON Web Tokens is replaced by a signal, without a moment in which none is accepted', async () => {
  const [older, newer] = [secret(), secret()];
  const signedBy = (/** @type {string} */ key) =>
    new SignJWT({ sub: 'alice' })
      .setProtectedHeader({ alg: 'HS256' })
      .setExpirationTime('1m')
      .sign(new TextEncoder().encode(key));
  const [ofOld, ofNew] = [await signedBy(older), await signedBy(newer)];
  const server = new Server(await freePort(), { FERMATA_AUTH: 'jwt' });
  server.configure(`jwt_secret = "${older}"\n`);
  await server.start();
  try {
    const statuses = async () => [await statusWith(server, ofOld), await statusWith(server, ofNew)];
    assert.deepEqual(await statuses(), [200, 401]);
    await server.reconfigure(`jwt_secret = "${older}"\nother_jwt_secret = "${newer}"\n`);
    assert.deepEqual(await statuses(), [200, 200]);
    await server.reconfigure(`jwt_secret = "${newer}"\n`);
    assert.deepEqual(await statuses(), [401, 200]);
  } finally {
    await server.discard();
  }
});

test('a published key that was withdrawn is refused after a signal, and an issuer that is away changes nothing', async () => {
  const keys = await Promise.all(
    ['one', 'two'].map(async (kid) => ({ kid, ...(await generateKeyPair('ES256')) })),
  );
  const [one, two] = /** @type {[typeof keys[0], typeof keys[0]]} */ (keys);
  /** @type {typeof keys} */
  let published = [one];
  let isAway = false;
  const issuer = http.createServer(async (_, response) => {
    const list = await Promise.all(
      published.map(async ({ kid, publicKey }) => ({ kid, ...(await exportJWK(publicKey)) })),
    );
    response.writeHead(isAway ? 503 : 200).end(JSON.stringify({ keys: list }));
  });
  await new Promise((resolve) => issuer.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (issuer.address());
  const signedBy = (/** @type {typeof one} */ { kid, privateKey }) =>
    new SignJWT({ sub: 'alice' })
      .setProtectedHeader({ alg: 'ES256', kid })
      .setExpirationTime('1m')
      .sign(privateKey);
  const [ofOne, ofTwo] = [await signedBy(one), await signedBy(two)];
  const server = await Server.start({
    FERMATA_AUTH: 'jwt',
    FERMATA_JWKS_URL: `http://127.0.0.1:${port}/jwks`,
  });
  const statuses = async () => [await statusWith(server, ofOne), await statusWith(server, ofTwo)];
  try {
    assert.deepEqual(await statuses(), [200, 401]);
    published = [one, two];
    assert.deepEqual(await statuses(), [200, 200], 'a new key is found by its name');
    published = [two];
    assert.deepEqual(await statuses(), [200, 200], 'keys are kept for a while');
    isAway = true;
    await reload(server);
    await until(
      () => /the keys of tokens cannot be fetched/.test(server.log),
      () => server.log,
    );
    assert.deepEqual(await statuses(), [200, 200]);
    isAway = false;
    server.signal('SIGHUP');
    await until(
      async () => (await statusWith(server, ofOne)) === 401,
      () => server.log,
    );
    assert.deepEqual(await statuses(), [401, 200]);
  } finally {
    await server.discard();
    issuer.close();
    issuer.closeAllConnections();
  }
});

const [oldKey, newKey] = [secret(), secret()];

clustered(
  'the cluster key is replaced step by step, and a parked call is answered through the other instance after each',
  { settings: { FERMATA_CLUSTER_KEY: oldKey, FERMATA_DRAIN: '5s' } },
  async (cluster) => {
    const locate = { name: 'get_location', input: { accuracy: 'high' } };
    const steps = [
      { FERMATA_CLUSTER_KEY: oldKey, FERMATA_OTHER_CLUSTER_KEY: newKey },
      { FERMATA_CLUSTER_KEY: newKey, FERMATA_OTHER_CLUSTER_KEY: oldKey },
      { FERMATA_CLUSTER_KEY: newKey, FERMATA_OTHER_CLUSTER_KEY: '' },
    ];
    let round = 0;
    const check = async () => {
      for (const [here, there] of [
        [1, 2],
        [2, 1],
      ]) {
        round += 1;
        const chat = `chat-${round}`;
        cluster.model.script(calls(locate), says('You are in Bern.'));
        const stream = await cluster.at(here ?? 1, chat).post('where am I?', { tools: BROWSER_TOOLS });
        const { toolCallId } = await stream.sees('tool-input-available');
        const reader = await cluster.at(there ?? 2, chat).follow();
        await cluster.at(there ?? 2, chat).answer({ toolCallId, output: 'Bern' });
        await Promise.all([stream.toEnd(), reader.toEnd()]);
        assert.ok(stream.done && reader.done, `${stream.outline}\n${reader.outline}`);
      }
    };
    await check();
    for (const step of steps)
      for (const server of cluster.servers) {
        await server.end();
        server.set(step);
        await server.start();
        await check();
      }
    for (const { log } of cluster.servers) assert.doesNotMatch(log, /were dropped/);
  },
);
