// @ts-check
// Everything that a front end may want, with every client that is installed. The runs report what each client
// gets, and docs/guide/clients.md is written from that:
//
//   FERMATA_WRITE_DOCS=1 node --test tests/matrix.test.mjs
//
// Without the variable the page that is there has to be the one that would be written. If only a part was
// run (--test-name-pattern), or a run has failed, nothing is compared.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { clientsPage } from '../harness/clients-page.mjs';
import { CLIENTS } from '../harness/clients.mjs';
import { Findings } from '../harness/findings.mjs';
import { HOPELESS, playOut } from '../harness/scenario.mjs';
import { approvals, questions } from './matrix/approvals.mjs';
import { pageCalls, serverCalls } from './matrix/calls.mjs';
import { conversation, limits } from './matrix/conversation.mjs';
import { errors, stops } from './matrix/ends.mjs';
import { model } from './matrix/model.mjs';
import { postingAgain } from './matrix/posting-again.mjs';
import { readers } from './matrix/readers.mjs';

/** @typedef {import('../harness/findings.mjs').Capability} Capability */
/** @typedef {import('../harness/clients.mjs').Client} Client */

const PAGE = path.resolve(import.meta.dirname, '../../docs/guide/clients.md');
const WRITES = process.env.FERMATA_WRITE_DOCS === '1';
const AT_ONCE = 4;

const findings = new Findings([
  model,
  serverCalls,
  pageCalls,
  approvals,
  questions,
  postingAgain,
  readers,
  conversation,
  stops,
  errors,
  limits,
]);

/**
 * @param {Capability} capability
 * @param {Client} client
 * @param {import('node:test').TestContext} context
 */
async function run(capability, client, context) {
  try {
    const { world, outcome } = await playOut(client, capability, capability.shows, context);
    findings.note(capability, client, outcome ?? undefined);
    findings.noteChunks(world);
  } catch (error) {
    if (capability.todo !== undefined)
      findings.note(capability, client, { cell: 'not yet', note: capability.todo });
    throw error;
  }
}

describe('the client matrix', { concurrency: AT_ONCE }, () => {
  for (const capability of findings.groups.flatMap(({ capabilities }) => capabilities)) {
    for (const client of CLIENTS) {
      const own = { timeout: HOPELESS, ...(capability.todo && { todo: capability.todo }) };
      test(`${capability.name} (ai ${client.package})`, own, async (context) =>
        run(capability, client, context),
      );
    }
  }
});

/**
 * Returns the place where two texts part.
 *
 * @param {string} there
 * @param {string} shown
 */
function difference(there, shown) {
  const [lines, others] = [there.split('\n'), shown.split('\n')];
  const place = others.findIndex((line, index) => line !== lines[index]);
  if (place === -1)
    return `docs/guide/clients.md goes on after line ${others.length}, the runs have shown nothing more`;
  return (
    `line ${place + 1} of docs/guide/clients.md is\n  ${lines[place] ?? '(missing)'}\nand the runs ` +
    `have shown\n  ${others[place]}`
  );
}

test('docs/guide/clients.md says what the runs have shown', (context) => {
  if (!findings.areComplete) {
    assert.ok(
      !WRITES,
      'docs/guide/clients.md is not written: not every run of the matrix was made and has succeeded',
    );
    return context.skip('not every run of the matrix was made and has succeeded');
  }
  const page = clientsPage(findings);
  if (WRITES) return writeFileSync(PAGE, page);
  const there = existsSync(PAGE) ? readFileSync(PAGE, 'utf8') : '';
  const help =
    'If the runs are right, FERMATA_WRITE_DOCS=1 node --test tests/matrix.test.mjs (in e2e/) writes the page anew.';
  assert.ok(there === page, `${difference(there, page)}\n${help}`);
});
