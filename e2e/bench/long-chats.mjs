// @ts-check
// `npm run bench` also has this: the cost of a turn for the server in a chat of 5,000 messages, compared with a chat
// of 50 of the same deployment. The model is sent as much in both, because a summary stands for the rest.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { API_KEY, FakeOpenAi, says } from '../harness/fake-openai.mjs';
import { freePort } from '../harness/ports.mjs';
import { Server } from '../harness/server.mjs';
import { Postgres } from '../harness/services.mjs';
import { until } from '../harness/until.mjs';

const TURNS = Number(process.env.TURNS ?? 200);
const ROUNDS = 5;
const TICKS = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/** @param {Server} server @returns {number} the seconds of CPU time of the process */
function used(server) {
  const fields = readFileSync(`/proc/${server.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

/**
 * @param {Server} server
 * @param {Record<string, unknown>} body
 */
async function post(server, body) {
  const response = await fetch(`${server.url}/api/chat`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!text.includes('"type":"finish"')) throw new Error(`${response.status} ${text.slice(-300)}`);
}

/**
 * Has a chat of so many messages, whose older ones a summary stands for.
 *
 * @param {Server} server
 * @param {string} id
 * @param {number} messages
 */
async function begin(server, id, messages) {
  const history = Array.from({ length: messages - 2 }, (_, place) => ({
    id: `m${place}`,
    role: place % 2 === 0 ? 'user' : 'assistant',
    parts: [{ type: 'text', text: `number ${place}` }],
  }));
  const last = { id: 'last', role: 'user', parts: [{ type: 'text', text: 'so?' }] };
  await post(server, { id, messages: [...history, last] });
  await until(async () => {
    const response = await fetch(`${server.url}/api/chat/${id}/summary`);
    if (!response.ok) return false;
    const summary = /** @type {{ messages: number }} */ (await response.json());
    return summary.messages >= messages - 30;
  }, `a summary of ${id}`);
}

/**
 * @param {Server} server
 * @param {string} id
 * @returns {Promise<number>} milliseconds of a core for a turn
 */
async function turn(server, id) {
  const before = used(server);
  for (let count = 0; count < TURNS; count++)
    await post(server, { id, message: { role: 'user', parts: [{ type: 'text', text: 'and now?' }] } });
  return ((used(server) - before) * 1000) / TURNS;
}

/** @param {number[]} numbers */
const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? NaN;

/**
 * @param {string} name
 * @param {Record<string, string>} settings
 */
async function measure(name, settings) {
  const model = await FakeOpenAi.start();
  model.improvise = (request) => {
    model.requests.length = 0;
    return says(request.model === 'summary-model' ? '{"goal": "count"}' : 'Well.');
  };
  const server = new Server(await freePort(), {
    OPENAI_BASE_URL: model.url,
    OPENAI_API_KEY: API_KEY,
    FERMATA_MODEL: 'test-model',
    FERMATA_SUMMARY_MODEL: 'summary-model',
    FERMATA_MAX_MESSAGES: '10000',
    RUST_LOG: 'warn',
    ...settings,
  });
  try {
    await server.start();
    /** @type {Record<string, number[]>} */
    const cost = { short: [], long: [] };
    for (let round = 0; round < ROUNDS; round++) {
      await begin(server, `short-${round}`, 50);
      await begin(server, `long-${round}`, 5000);
      cost.short?.push(await turn(server, `short-${round}`));
      cost.long?.push(await turn(server, `long-${round}`));
    }
    const [short, long] = [median(cost.short ?? []), median(cost.long ?? [])];
    console.log(
      `a turn on ${name}: ${short.toFixed(2)} ms of a core at 50 messages, ${long.toFixed(2)} at 5,000 = ` +
        `${(long / short).toFixed(2)} times`,
    );
    if (model.faults.length > 0) throw new Error(model.faults.slice(0, 3).join('\n'));
  } catch (error) {
    console.log(server.log.split('\n').slice(-20).join('\n'));
    throw error;
  } finally {
    await server.discard();
    await model.stop();
  }
}

await measure('SQLite', {});
const database = await Postgres.create();
await measure('PostgreSQL', { DATABASE_URL: database.url });
await database.drop();
