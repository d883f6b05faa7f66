// @ts-check
// Calls that a person must allow, and what a tool asks a person, answered while the stream is open.

import assert from 'node:assert/strict';
import { calls, says } from '../../harness/fake-openai.mjs';
import { byHand } from '../../harness/mcp.mjs';
import { until } from '../../harness/until.mjs';
import { BY_REQUEST, ends, locate, opens, statesOf, time, write } from './common.mjs';

/** @typedef {import('./common.mjs').World} World */
/** @typedef {import('./common.mjs').Page} Page */
/** @typedef {import('../../harness/findings.mjs').Finding} Finding */
/** @typedef {import('../../harness/findings.mjs').Group} Group */

/**
 * The way that the page learns of the question that it shows.
 *
 * @param {Page} page
 * @returns {Finding | void}
 */
function howItIsAsked(page) {
  const [part] = page.calls;
  const [question] = page.parts('data-tool-approval');
  if (question === undefined) return assert.equal(part?.state, 'approval-requested');
  assert.equal(part?.state, 'input-available');
  assert.equal(/** @type {{ toolCallId: string }} */ (question.data).toolCallId, part.toolCallId);
  return {
    cell: '`data-tool-approval`',
    note:
      'The question is a `data-tool-approval` part with `{ approvalId, toolCallId, toolName }`; ' +
      'the call itself stays `input-available`. ' +
      `Answer with \`{ chatId, approvalId, approved, reason? }\` to ${BY_REQUEST}.`,
  };
}

/**
 * The way that the page learns of a denial.
 *
 * @param {Page} page
 * @returns {Finding | void}
 */
function howItIsDenied(page) {
  const [part] = page.calls;
  if (part?.state === 'output-denied') return;
  assert.equal(part?.state, 'output-error');
  assert.match(part.errorText ?? '', /^Denied: /);
  return {
    cell: '`output-error`',
    note: 'A denial is an `output-error` whose `errorText` is "Denied: " and the reason.',
  };
}

/**
 * A page that has been asked whether a note may be written.
 *
 * @param {World} world
 */
async function asked(world) {
  const page = await opens(world);
  page.say('note: milk');
  return { page, ...(await page.isAsked('write_note')) };
}

/** @type {Group} */
export const approvals = {
  title: 'Calls that a person must allow, answered while the stream is open',
  capabilities: [
    {
      name: 'the question, as `approval-requested`',
      shows: async (world) => {
        world.model.script(calls(write()), says('Noted.'));
        const { page, approvalId, input } = await asked(world);
        assert.deepEqual(input, write().input);
        const how = howItIsAsked(page);
        await world.answer({ approvalId, approved: true });
        await ends(page, 'Noted.');
        return how;
      },
    },
    {
      name: 'approve',
      shows: async (world) => {
        world.model.script(calls(write()), says('Noted.'));
        const { page, approvalId } = await asked(world);
        await world.answer({ approvalId, approved: true });
        await ends(page, 'Noted.');
        assert.deepEqual(statesOf(page), ['output-available']);
      },
    },
    {
      name: 'deny with a reason, as `output-denied`',
      shows: async (world) => {
        world.model.script(calls(write()), says('Then not.'));
        const { page, approvalId } = await asked(world);
        await world.answer({ approvalId, approved: false, reason: 'not on Sundays' });
        await ends(page, 'Then not.');
        assert.match(world.model.request(2).results[0]?.text ?? '', /not on Sundays/);
        return howItIsDenied(page);
      },
    },
    {
      name: 'always: later calls of the tool need no approval',
      shows: async (world) => {
        world.model.script(calls(write()), calls(write('work')), says('Both.'));
        const { page, approvalId } = await asked(world);
        await world.answer({ approvalId, approved: true, always: true });
        await ends(page, 'Both.');
        assert.deepEqual(statesOf(page), ['output-available', 'output-available']);
      },
    },
    {
      name: 'edited input: shown, run, reported to the model',
      shows: async (world) => {
        const edited = { title: 'shopping', body: 'oat milk' };
        world.model.script(calls(write()), says('Noted.'));
        const { page, approvalId } = await asked(world);
        await world.answer({ approvalId, approved: true, input: edited });
        await ends(page, 'Noted.');
        assert.deepEqual(page.calls[0]?.input, edited);
        assert.deepEqual(
          world.model.request(2).calls.map(({ input }) => input),
          [edited],
        );
      },
    },
    {
      name: 'a decision made elsewhere, in `approval.approved`',
      shows: async (world) => {
        world.model.script(calls(write()), says('Noted.'));
        const { page, approvalId } = await asked(world);
        await world.answer({ approvalId, approved: true, reason: 'go on' });
        await ends(page, 'Noted.');
        const [part] = page.calls;
        if (part?.approval?.approved === true) return undefined;
        assert.equal(part?.state, 'output-available');
        return {
          cell: 'the outcome only',
          note: "A decision made elsewhere shows only as the call's next state.",
        };
      },
    },
    {
      name: 'a call that a rule denies needs no approval',
      config: '[[policy]]\ntool = "write_note"\ndecision = "deny"\nreason = "No notes here."\n',
      shows: async (world) => {
        world.model.script(calls(write()), says('Then not.'));
        const page = await opens(world);
        page.say('note: milk');
        await ends(page, 'Then not.');
        assert.match(world.model.request(2).results[0]?.text ?? '', /No notes here/);
        return howItIsDenied(page);
      },
    },
    {
      name: "a page's own call that must be asked about",
      config: '[[policy]]\nfrom = "browser"\ndecision = "ask"\n',
      shows: async (world) => {
        world.model.script(calls(locate), says('Bern.'));
        const page = await opens(world);
        page.say('where am I?');
        const [{ id: toolCallId }] = await until(async () => {
          const pending = await world.pending().catch(() => []);
          return pending.length > 0 && /** @type {[{ id: string }]} */ (/** @type {unknown} */ (pending));
        }, 'a question');
        await world.answer({ toolCallId, approved: true });
        await page.shows('get_location', 'input-available');
        assert.deepEqual(page.toolCalls, ['get_location']);
        await world.answer({ toolCallId, output: 'Bern' });
        await ends(page, 'Bern.');
        assert.equal(page.parts('data-tool-approval').length, world.version === 5 ? 1 : 0);
      },
    },
    {
      name: "a page's call beside a question waits for the decision",
      shows: async (world) => {
        world.model.script(calls(locate, write(), time), says('All.'));
        const page = await opens(world);
        page.say('three things');
        const { approvalId } = await page.isAsked('write_note');
        assert.ok(!page.toolCalls.includes('get_location'), 'the page is not told to run it yet');
        await world.answer({ approvalId, approved: true });
        const { toolCallId } = await page.shows('get_location', 'input-available');
        await world.answer({ toolCallId, output: 'Bern' });
        await ends(page, 'All.');
        assert.deepEqual(statesOf(page), Array(3).fill('output-available'));
      },
    },
    {
      name: "a denial beside a page's call",
      shows: async (world) => {
        world.model.script(calls(write(), locate), says('Bern.'));
        const { page, approvalId } = await asked(world);
        await world.answer({ approvalId, approved: false, reason: 'no' });
        const { toolCallId } = await page.shows('get_location', 'input-available');
        await world.answer({ toolCallId, output: 'Bern' });
        await ends(page, 'Bern.');
        const [note, location] = statesOf(page);
        assert.deepEqual([note, location], ['output-error', 'output-available']);
        return {
          cell: '`output-error`',
          note:
            'While a browser call of the step is open, the stock helpers treat a denial as unfinished. In such a ' +
            'step it arrives as `output-error` in every version.',
        };
      },
    },
  ],
};

/**
 * Has the MCP server ask the person, and answers.
 *
 * @param {World} world
 * @param {Record<string, unknown>} answer
 * @param {string} state that the question ends in
 */
async function answersQuestion(world, answer, state) {
  await world.offers('hand__ask');
  world.model.script(calls({ name: 'hand__ask', input: { key: 'Ann' } }), says('I see.'));
  const page = await opens(world);
  page.say('ask me');
  const question = () =>
    /** @type {{ elicitationId: string, state: string }} */ (page.parts('data-elicitation')[0]?.data);
  await until(
    () => page.parts('data-elicitation').length > 0,
    () => `a question; ${page.outline}`,
  );
  assert.equal(question().state, 'pending');
  await world.answer({ elicitationId: question().elicitationId, ...answer });
  await ends(page, 'I see.');
  assert.equal(page.parts('data-elicitation').length, 1, 'the question changes in its place');
  assert.equal(question().state, state);
}

const AS_DATA = {
  cell: '`data-elicitation`',
  note:
    'The AI SDK has no elicitations. The question is a `data-elicitation` part whose `state` is ' +
    'updated in place. Answer with `{ chatId, elicitationId, action, content? }` to ' +
    `${BY_REQUEST}.`,
};

/** @type {Group} */
export const questions = {
  title: 'What an MCP tool asks the person',
  capabilities: [
    {
      name: 'accept, with an answer',
      config: byHand,
      shows: async (world) => {
        await answersQuestion(world, { action: 'accept', content: { color: 'red' } }, 'accepted');
        assert.match(world.model.request(2).results[0]?.text ?? '', /red/);
        return AS_DATA;
      },
    },
    {
      name: 'decline',
      config: byHand,
      shows: async (world) => {
        await answersQuestion(world, { action: 'decline' }, 'declined');
        return AS_DATA;
      },
    },
  ],
};
