// @ts-check
// Instances on PostgreSQL that cannot call each other, because there is no Redis.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { newestOf } from '../harness/clients.mjs';
import { calls, says } from '../harness/fake-openai.mjs';
import { BROWSER_TOOLS, HOPELESS, World } from '../harness/scenario.mjs';
import { Server } from '../harness/server.mjs';
import { NO_SERVICES, Postgres } from '../harness/services.mjs';

const locate = { name: 'get_location', input: { accuracy: 'high' } };

/**
 * @param {string} name
 * @param {(world: World, settings: Record<string, string>) => Promise<void>} body
 */
function alone(name, body) {
  test(name, { timeout: HOPELESS, skip: NO_SERVICES }, async (context) => {
    const database = await Postgres.create();
    const settings = { DATABASE_URL: database.url };
    const world = await World.create(newestOf(7), { settings });
    try {
      await body(world, settings);
      await world.judge();
    } catch (error) {
      context.diagnostic(world.server.log);
      throw error;
    } finally {
      await world.dispose();
      await database.drop();
    }
  });
}

/** Parks a call. @param {World} world */
async function parks(world) {
  world.model.script(calls(locate), says('You are in Bern.'));
  const stream = await world.post('where am I?', { tools: BROWSER_TOOLS });
  const { toolCallId } = await stream.sees('tool-input-available');
  return { toolCallId, stream };
}

describe('on PostgreSQL without Redis', () => {
  alone('a server that is killed and started again reads and writes its chats at once', async (world) => {
    const { toolCallId } = await parks(world);
    await world.server.kill();
    await world.server.start();
    const [waiting] = await world.pending();
    assert.equal(waiting?.id, toolCallId);
    assert.equal((await world.stored()).length, 1, 'the message of the open run is in its stream');
    const stream = await world.follow();
    await world.answer({ toolCallId, output: { city: 'Bern' } });
    await stream.toEnd();
    assert.ok(stream.done, stream.outline);
    assert.equal((await world.stored()).length, 2);
  });

  alone('what another instance holds can be read while that stands still', async (world, settings) => {
    const { toolCallId, stream } = await parks(world);
    const api = {
      OPENAI_BASE_URL: world.model.url,
      OPENAI_API_KEY: 'none',
      FERMATA_MODEL: 'test-model',
    };
    const other = await Server.start({ ...api, ...settings });
    world.server.signal('SIGSTOP');
    try {
      const read = async (/** @type {string} */ path) => {
        const response = await fetch(`${other.url}/api/chat/${world.id}${path}`);
        assert.equal(response.status, 200, path);
        return /** @type {Record<string, any>} */ (await response.json());
      };
      assert.equal((await read('/pending')).pending[0].id, toolCallId);
      assert.equal((await read('')).open, true);
      assert.deepEqual((await read('/grants')).grants, []);
    } finally {
      world.server.signal('SIGCONT');
      await other.discard();
    }
    await world.answer({ toolCallId, output: { city: 'Bern' } });
    await stream.toEnd();
    assert.ok(stream.done, stream.outline);
  });
});
