// @ts-check
// Effects that happen once although their calls run more than once.

import assert from 'node:assert/strict';
import { calls, says } from '../harness/fake-openai.mjs';
import { booked, byHand, processOf, times } from '../harness/mcp.mjs';
import { scenario } from '../harness/scenario.mjs';
import { until } from '../harness/until.mjs';

/** @typedef {import('../harness/scenario.mjs').Place} Place */

/** Longer than any test, in milliseconds: the first run of a call never ends by itself. */
const FOREVER = 600_000;

const config = (/** @type {Place} */ place) =>
  `${byHand(place, { tools: ['book'] })}[tools."hand__book"]\nrepeatable = true\n`;
const book = { name: 'hand__book', input: { key: 'a room', takes: FOREVER } };

scenario(
  'a call that runs again after a crash has its effect once',
  { versions: [7], config },
  async (world) => {
    await world.offers('hand__book');
    world.model.script(calls(book), says('Booked.'));
    await world.post('book a room');
    await until(() => booked(world).length === 1, 'the effect');
    await world.server.kill();
    await world.server.start();
    await until(() => times(world, 'book') === 2, 'the call to run again');
    await until(() => world.model.requests.length === 2, 'the model to be told');
    assert.match(world.model.request(2).results[0]?.text ?? '', /a room was booked before/);
    assert.deepEqual(booked(world), ['a room']);
  },
);

scenario(
  'a call that is retried after its MCP server has died has its effect once',
  { versions: [7], config },
  async (world) => {
    await world.offers('hand__book');
    world.model.script(calls(book), says('Booked.'));
    const stream = await world.post('book a room');
    await until(() => booked(world).length === 1, 'the effect');
    process.kill(processOf(world), 'SIGKILL');
    await stream.toEnd();
    assert.equal(times(world, 'book'), 2);
    assert.match(world.model.request(2).results[0]?.text ?? '', /a room was booked before/);
    assert.deepEqual(booked(world), ['a room']);
  },
);
