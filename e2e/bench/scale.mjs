// @ts-check
// How Fermata and PostgreSQL behave while very many chats wait: `node bench/scale.mjs`, with PostgreSQL's programs or
// FERMATA_TEST_POSTGRES_URL. A chat that waits for approval is made by a real post, and its rows are copied. Then real requests go to chats
// at random. docs/guide/scale.md has the results.
//
//   CHATS=10000,100000,1000000   the numbers of waiting chats
//   REQUESTS=300                 the number of requests for each figure

import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import pg from 'pg';
import { EventStream } from '../harness/events.mjs';
import { API_KEY, FakeOpenAi, calls, says } from '../harness/fake-openai.mjs';
import { freePort } from '../harness/ports.mjs';
import { NO_SERVICES, Postgres } from '../harness/services.mjs';
import { Server } from '../harness/server.mjs';

const SIZES = (process.env.CHATS ?? '10000,100000,1000000').split(',').map(Number);
const REQUESTS = Number(process.env.REQUESTS ?? 300);
/** The number of chats of an owner. */
const CHATS_OF_OWNER = 100;
/** The rows of this many chats are copied in a transaction. */
const BATCH = 20_000;

if (NO_SERVICES !== undefined) throw new Error(NO_SERVICES);

const [model, database] = await Promise.all([FakeOpenAi.start(), Postgres.create()]);
const client = new pg.Client({ connectionString: database.url });
await client.connect();
const settings = {
  DATABASE_URL: database.url,
  OPENAI_BASE_URL: model.url,
  OPENAI_API_KEY: API_KEY,
  FERMATA_MODEL: 'test-model',
  FERMATA_USER_HEADER: 'x-user',
  FERMATA_TRUSTED_PROXIES: '127.0.0.1',
  FERMATA_EXPIRE: '30days',
  RUST_LOG: 'warn',
};
const server = await Server.start(settings, await freePort());

const owner = (/** @type {number} */ chat) => `owner-${Math.floor(chat / CHATS_OF_OWNER)}`;
const call = {
  name: 'write_note',
  input: { title: 'Order 4711', body: 'A refund of 20 €, because the lamp arrived broken.' },
};

/** @param {string} path @param {string} user @param {unknown} [body] */
async function request(path, user, body) {
  const response = await fetch(`${server.url}${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { 'x-user': user, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  assert.ok(response.ok, `${path}: ${response.status} ${text}`);
  return text;
}

/** The chat whose rows are copied. */
async function makeTemplate() {
  model.script(calls(call));
  const body = {
    id: 'scale-0',
    messages: [
      { role: 'user', content: 'The lamp of order 4711 arrived broken. Please note a refund of 20 €.' },
    ],
    fermata: { client: 7, hold: '0s' },
  };
  const stream = await EventStream.open(`${server.url}/api/chat`, { body, headers: { 'x-user': owner(0) } });
  await stream.toEnd();
  const { pending } = JSON.parse(await request('/api/chat/scale-0/pending', owner(0)));
  const { rows } = await client.query("select id from runs where chat_id = 'scale-0'");
  return { run: rows[0].id, call: pending[0].toolCallId, approval: pending[0].approvalId };
}

/** The columns of a table. @param {string} table @returns {Promise<string[]>} */
async function columnsOf(table) {
  const { rows } = await client.query(
    'select column_name from information_schema.columns where table_name = $1 order by ordinal_position',
    [table],
  );
  return rows.map(({ column_name: name }) => name);
}

/**
 * Copies the rows of the template.
 *
 * @param {Awaited<ReturnType<typeof makeTemplate>>} template
 * @param {number} from the first number that has no chat yet
 * @param {number} to
 */
async function copy(template, from, to) {
  for (const table of ['chats', 'messages', 'runs', 'run_settings', 'run_chunks', 'calls']) {
    const columns = await columnsOf(table);
    // The ids of the copy are those of the template with the number of the chat behind them.
    const values = columns.map((column) => {
      const own = `t.${column}`;
      if (column === 'owner') return `'owner-' || (n / ${CHATS_OF_OWNER})`;
      if ((table === 'chats' && column === 'id') || column === 'chat_id') return "'scale-' || n";
      if (['id', 'run_id', 'approval_id', 'message_id'].includes(column)) return `${own} || n`;
      if (['call', 'chunks', 'state', 'body', 'settings'].includes(column))
        return [template.run, template.call, template.approval].reduce(
          (sql, id) => `replace(${sql}, '${id}', '${id}' || n)`,
          own,
        );
      return own;
    });
    const key = table === 'chats' ? 'id' : 'chat_id';
    await client.query(
      `insert into ${table} (${columns.join(', ')}) select ${values.join(', ')} from ${table} t, generate_series($1::bigint, $2::bigint) n where t.${key} = 'scale-0'`,
      [from, to],
    );
  }
}

/** @param {number[]} times in milliseconds */
function percentiles(times) {
  const sorted = [...times].sort((one, other) => one - other);
  const at = (/** @type {number} */ share) =>
    sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
  return `${at(0.5).toFixed(1)} / ${at(0.99).toFixed(1)}`;
}

/** What the database has committed and written so far. */
async function written() {
  await client.query('select pg_stat_clear_snapshot()');
  const { rows } = await client.query(
    "select xact_commit::float8 as commits, (pg_current_wal_lsn() - '0/0'::pg_lsn)::float8 as wal from pg_stat_database where datname = current_database()",
  );
  return rows[0];
}

/** @param {(place: number) => Promise<unknown>} work */
async function measure(work) {
  const times = [];
  const before = await written();
  for (let place = 0; place < REQUESTS; place += 1) {
    const began = performance.now();
    await work(place);
    times.push(performance.now() - began);
  }
  // PostgreSQL counts a session's commits when it is idle for a moment.
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const after = await written();
  return {
    times: percentiles(times),
    commits: ((after.commits - before.commits) / REQUESTS).toFixed(1),
    wal: `${((after.wal - before.wal) / REQUESTS / 1000).toFixed(1)} kB`,
  };
}

const template = await makeTemplate();
let chats = 1;
let answered = 0;
/** A waiting chat that was not answered yet, far from the last one. */
const nextChat = () => {
  answered += 1;
  return 1 + ((answered * 7919) % (chats - 1));
};

console.log(
  '| waiting chats | size of each | answer, p50 / p99 | commits, WAL | turn in a new chat, p50 / p99 | commits, WAL | list of chats | pending | ready |',
);
console.log('|---|---|---|---|---|---|---|---|---|');
for (const size of SIZES) {
  while (chats < size) {
    const to = Math.min(size, chats + BATCH) - 1;
    await client.query('begin');
    await copy(template, chats, to);
    await client.query('commit');
    chats = to + 1;
  }
  await client.query('analyze');
  await client.query('checkpoint');
  const { rows } = await client.query('select pg_database_size(current_database())::float8 as bytes');
  model.improvise = () => says('Noted.');
  const answer = await measure(async () => {
    const chat = nextChat();
    await request('/chat/tool-result', owner(chat), {
      chatId: `scale-${chat}`,
      approvalId: `${template.approval}${chat}`,
      approved: true,
    });
  });
  const turn = await measure(async (place) => {
    const body = { id: `turn-${size}-${place}`, messages: [{ role: 'user', content: 'Hello' }] };
    const headers = { 'x-user': `another-${place}` };
    const stream = await EventStream.open(`${server.url}/api/chat`, { body, headers });
    await stream.toEnd();
    assert.ok(stream.done, `${stream.status} ${stream.outline}`);
  });
  const list = await measure((place) => request('/api/chats', owner((place * 7919) % chats)));
  const pending = await measure((place) => {
    const chat = (place * 104_729) % chats;
    return request(`/api/chat/scale-${chat}/pending`, owner(chat));
  });
  const another = new Server(await freePort(), settings);
  const began = performance.now();
  await another.start();
  const ready = performance.now() - began;
  await another.discard();
  console.log(
    `| ${size} | ${(rows[0].bytes / size / 1000).toFixed(1)} kB | ${answer.times} ms | ${answer.commits}, ${answer.wal} | ${turn.times} ms | ` +
      `${turn.commits}, ${turn.wal} | ${list.times} ms | ${pending.times} ms | ${ready.toFixed(0)} ms |`,
  );
}
await server.discard();
await client.end();
await Promise.all([model.stop(), database.drop()]);
