// @ts-check
// A run that harms the instance at work on it, when two share a database: it goes from one to the other
// and is given up at the third take-up. All the while other chats are answered, and both instances are well
// afterwards.

import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { clustered } from '../harness/cluster.mjs';
import { says } from '../harness/fake-openai.mjs';
import { until } from '../harness/until.mjs';

/** @typedef {import('../harness/cluster.mjs').Cluster} Cluster */
/** @typedef {import('../harness/fake-openai.mjs').ModelRequest} ModelRequest */
/** @typedef {import('../harness/server.mjs').Server} Server */

const POISON = 'drink this';
const CHAT = 'poisoned';
/** Each instance asks for a model of another name, which tells who asks. */
const settings = (/** @type {number} */ place) => ({ FERMATA_MODEL: `model-${place}` });
const placeOf = (/** @type {ModelRequest} */ { model }) => Number(String(model).slice('model-'.length));
const isPoison = (/** @type {ModelRequest} */ request) => request.words.at(-1) === `user: ${POISON}`;

/**
 * The number of attempts at a run: when it is posted, and when it is taken up for the first and the second time.
 */
const HARMED = 3;

let chats = 0;

/**
 * A message in a chat of its own is answered by an instance.
 *
 * @param {Cluster} cluster
 * @param {number} place
 * @param {string} [chat]
 */
async function isAnswered(cluster, place, chat = `chat-${(chats += 1)}`) {
  const stream = await cluster.at(place, chat).post('are you there?');
  await stream.toEnd();
  assert.ok(
    stream.done && stream.chunks.some(({ delta }) => delta === 'Here I am.'),
    `${place}: ${stream.status} ${stream.outline}${stream.rest}`,
  );
}

/**
 * Posts a run that harms its instance, and makes sure that the run is given up.
 *
 * @param {Cluster} cluster
 * @param {(server: Server) => Promise<void>} harm
 * @param {(server: Server) => Promise<void>} heal also what is well
 */
async function isGivenUp(cluster, harm, heal) {
  /** @type {number[]} */
  const harmed = [];
  let harming = Promise.resolve();
  cluster.model.improvise = (request) => {
    if (!isPoison(request)) return says('Here I am.');
    const place = placeOf(request);
    const other = 3 - place;
    // One after the other, and one is always well.
    harming = harming.then(async () => {
      await heal(cluster.server(other));
      await isAnswered(cluster, other);
      await harm(cluster.server(place));
      harmed.push(place);
      await isAnswered(cluster, other);
    });
    return (pen) => pen.gone.then(() => undefined);
  };
  const posted = cluster
    .at(1, CHAT)
    .post(POISON)
    .then((stream) => stream.toEnd())
    .catch(() => undefined);
  for (let times = 1; times <= HARMED; times += 1) {
    await until(
      () => cluster.model.requests.filter(isPoison).length >= times,
      `the run to be worked on for the ${times}. time`,
    );
    await harming;
  }
  const outcomes = async () =>
    (await cluster.database.rows(`select outcome from runs where chat_id = '${CHAT}'`)).map(
      (row) => row.outcome,
    );
  await until(async () => (await outcomes())[0] !== null, 'the run to be given up');
  assert.deepEqual(await outcomes(), ['crash_loop']);
  assert.deepEqual(harmed, [1, 2, 1], 'it goes from one to the other');
  for (const place of [1, 2]) await heal(cluster.server(place));
  await posted;
  for (const place of [1, 2]) {
    assert.equal((await cluster.at(place, CHAT).view()).open, false);
    await isAnswered(cluster, place);
    await isAnswered(cluster, place, CHAT);
  }
  assert.equal(cluster.model.requests.filter(isPoison).length, HARMED, 'the model is not asked again');
}

describe(
  'a run that harms whoever works on it is given up, and other chats are answered all the time',
  { concurrency: 2 },
  () => {
    clustered('where it kills the process', { settings }, async (cluster) => {
      const heal = async (/** @type {Server} */ server) => {
        if (!server.alive) await server.start();
      };
      await isGivenUp(cluster, (server) => server.kill(), heal);
    });

    clustered('where the process stands still', { settings }, async (cluster) => {
      const harm = async (/** @type {Server} */ server) => server.signal('SIGSTOP');
      const heal = async (/** @type {Server} */ server) => server.signal('SIGCONT');
      await isGivenUp(cluster, harm, heal);
    });
  },
);
