// @ts-check
// `npm run soak` has this, too: the newest migrations of PostgreSQL on a million runs, while others write and
// while a long query holds the tables. Whoever writes gives up after as long as a server would, and nobody may
// have to. ROWS says how many, FIRST the number of the first migration that is applied anew.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import pg from 'pg';
import { binary } from '../harness/server.mjs';
import { Postgres } from '../harness/services.mjs';

const ROWS = Number(process.env.ROWS ?? 1_000_000);
const OPEN = Math.floor(ROWS * 0.9);
/** The limits of a server's sessions. */
const LIMITS = "set lock_timeout = '8s'; set statement_timeout = '10s'";

/** What the migrations from 0020 on have made; without it the database is one of the version before them. */
const UNDO = `
  drop index runs_open_by_owner;
  drop trigger runs_have_owners on runs;
  drop function runs_have_owners;
  alter table runs drop column owner;
  delete from _sqlx_migrations where version >= 20;
`;

const FILL = [
  `insert into chats (id, fence, owner, profile, created_at, updated_at)
   select 'c' || n, 1, 'o' || n % 1000, 6, n, n from generate_series(1, ${ROWS}) as n`,
  `insert into runs (chat_id, id, message_id, state, driver, waiting, started_at, expires_at)
   select 'c' || n, 'r', 'm', '{"step":1}', null, true, n, 9000000000000000 from generate_series(1, ${OPEN}) as n`,
  `insert into runs (chat_id, id, message_id, waiting, started_at, ended_at, outcome)
   select 'c' || n, 'r', 'm', false, n, n, 'finished' from generate_series(${OPEN + 1}, ${ROWS}) as n`,
  'vacuum analyze',
];

/** @param {string} url */
const connected = async (url) => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return client;
};

const database = await Postgres.create();
const migrate = () =>
  promisify(execFile)(binary(), ['migrate'], { env: { PATH: process.env.PATH, DATABASE_URL: database.url } });
try {
  await migrate();
  await database.rows(UNDO);
  for (const statement of FILL) await database.rows(statement);
  console.log(`${ROWS} chats with a run each, ${OPEN} of them open`);

  let isMigrating = true;
  const writes = async () => {
    const client = await connected(database.url);
    await client.query(LIMITS);
    let [done, longest] = [0, 0];
    while (isMigrating) {
      const chat = `c${1 + Math.floor(Math.random() * OPEN)}`;
      const began = performance.now();
      // As a server commits: first the chat, then its run.
      await client.query('begin');
      await client.query('update chats set fence = fence + 1 where id = $1', [chat]);
      await client.query("update runs set attempts = attempts + 1 where chat_id = $1 and id = 'r'", [chat]);
      await client.query('commit');
      longest = Math.max(longest, performance.now() - began);
      done += 1;
    }
    await client.end();
    return { done, longest };
  };
  const longQuery = async () => {
    const client = await connected(database.url);
    await client.query('begin isolation level repeatable read');
    await client.query('select count(*) from runs');
    await new Promise((resolve) => setTimeout(resolve, 8000));
    await client.query('commit');
    await client.end();
  };
  const held = longQuery();
  const writers = [writes(), writes(), writes()];
  const began = performance.now();
  const { stdout } = await migrate();
  const seconds = (performance.now() - began) / 1000;
  isMigrating = false;
  await held;
  // A write that waited for longer than it may has failed.
  const written = await Promise.all(writers);
  console.log(stdout.trim());
  const sum = written.reduce((all, { done }) => all + done, 0);
  const longest = Math.max(...written.map((writer) => writer.longest));
  console.log(
    `${seconds.toFixed(1)} s; meanwhile ${sum} commits, of which the longest took ${longest.toFixed(0)} ms`,
  );
  const [owners] = await database.rows(
    'select count(*)::int as without from runs where outcome is null and owner is null',
  );
  assert.equal(owners?.without, 0, 'open runs have no owner');
  const [indexes] = await database.rows('select count(*)::int as invalid from pg_index where not indisvalid');
  assert.equal(indexes?.invalid, 0, 'an index cannot be used');
} finally {
  await database.drop();
}
