// @ts-check
// What an operator finds in the database about calls.

import assert from 'node:assert/strict';
import { calls, says } from '../harness/fake-openai.mjs';
import { NO_DATABASE, rows } from '../harness/database.mjs';
import { byHand } from '../harness/mcp.mjs';
import { BROWSER_TOOLS, scenario } from '../harness/scenario.mjs';

/** @typedef {import('../harness/scenario.mjs').Place} Place */
/** @typedef {import('../harness/database.mjs').Row} Row */

const note = { title: 'shopping', body: 'milk' };
const edited = { title: 'shopping', body: 'oat milk' };
const config = (/** @type {Place} */ place) => `${byHand(place)}
[[policy]]
tool = "search_*"
decision = "deny"
reason = "Not today."
`;

/** @param {Row | undefined} row */
const statesOf = (row) => {
  const states = /** @type {{ state: string, at: string }[]} */ (JSON.parse(String(row?.states)));
  const times = states.map(({ at }) => Date.parse(at));
  assert.deepEqual(
    times,
    [...times].sort((one, other) => one - other),
    'the times are in order',
  );
  assert.ok(
    times.every((time) => time > 0),
    String(row?.states),
  );
  return states.map(({ state }) => state);
};

scenario(
  'calls are kept with their states, decisions and outcomes',
  { versions: [7], config, skip: NO_DATABASE },
  async (world) => {
    const { model } = world;
    await world.offers('hand__fail');
    model.script(
      calls(
        { name: 'write_note', input: note },
        { name: 'hand__fail', input: {} },
        { name: 'get_location', input: {} },
        { name: 'search_notes', input: { query: 'x' } },
        { name: 'hand__change', input: { key: 'x' } },
      ),
      calls({ name: 'hand__die', input: {} }),
      says('So it is.'),
    );
    const page = await world.page({ tools: BROWSER_TOOLS });
    page.say('five things');
    const question = await page.isAsked('write_note');
    const other = await page.isAsked('hand__change');
    await world.answer({
      approvalId: question.approvalId,
      approved: true,
      input: edited,
      reason: 'oats',
      always: true,
    });
    await world.answer({ approvalId: other.approvalId, approved: false, reason: 'not now' });
    const { toolCallId } = await page.shows('get_location', 'input-available');
    await world.answer({ toolCallId, output: { city: 'Bern' } });
    await page.settles();

    const found = await rows(world, 'select * from tool_calls order by step, position');
    const byTool = new Map(found.map((row) => [row.tool, row]));
    assert.equal(found.length, 6);

    const written = byTool.get('write_note');
    // The edit is checked again, which is a change from waiting to waiting.
    assert.deepEqual(statesOf(written), [
      'validating',
      'awaiting_approval',
      'awaiting_approval',
      'scheduled',
      'executing',
      'success',
    ]);
    assert.ok(Number(written?.waited_for_approval) > 0);
    assert.ok(Number(written?.ran_for) > 0);
    assert.ok(Number(written?.created_at) <= Number(written?.started_at));
    assert.ok(Number(written?.started_at) <= Number(written?.ended_at));
    assert.deepEqual(
      [written?.run_by, written?.state, written?.policy_decision, written?.policy_source],
      ['server', 'success', 'ask', 'default'],
    );
    assert.deepEqual([written?.approved, written?.always, written?.decided_reason], [1, 1, 'oats']);
    assert.ok(written?.decided_by, 'who decided');
    assert.deepEqual(JSON.parse(String(written?.input)), note);
    assert.deepEqual(JSON.parse(String(written?.edited_input)), edited);
    assert.equal(written?.error_type, null);

    const failed = byTool.get('hand__fail');
    assert.deepEqual(statesOf(failed), ['validating', 'scheduled', 'executing', 'error']);
    assert.deepEqual([failed?.run_by, failed?.error_type], ['mcp', 'internal']);
    assert.match(String(failed?.outcome), /the disk is full/);
    assert.equal(failed?.waited_for_approval, null);
    assert.ok(Number(failed?.waited_for_turn) > 0, 'it waited for the gate');

    const denied = byTool.get('search_notes');
    assert.deepEqual(statesOf(denied), ['validating', 'cancelled']);
    assert.deepEqual(
      [denied?.policy_decision, denied?.policy_source, denied?.policy_reason, denied?.error_type],
      ['deny', 'rule 1', 'Not today.', 'denied'],
    );
    assert.equal(denied?.started_at, null);

    const refused = byTool.get('hand__change');
    assert.deepEqual(statesOf(refused), ['validating', 'awaiting_approval', 'cancelled']);
    assert.deepEqual(
      [refused?.approved, refused?.decided_reason, refused?.error_type],
      [0, 'not now', 'denied'],
    );

    const answered = byTool.get('get_location');
    assert.deepEqual(statesOf(answered), ['validating', 'scheduled', 'executing', 'success']);
    assert.equal(answered?.run_by, 'browser');
    assert.deepEqual(JSON.parse(String(answered?.outcome)), { city: 'Bern' });

    assert.equal(byTool.get('hand__die')?.error_type, 'network');
  },
);
