// @ts-check
// `hold: "0s"`: the stream ends where a call waits, and the page goes on by posting the chat again, as the AI
// SDK's own servers have it. The page is given the answer and nothing else; when to post is up to the stock
// helpers.

import assert from 'node:assert/strict';
import { calls, says } from '../../harness/fake-openai.mjs';
import { BY_REQUEST, ends, locate, opens, pick, statesOf, time, typesOf, write } from './common.mjs';

/** @typedef {import('./common.mjs').World} World */
/** @typedef {import('./common.mjs').Page} Page */

const BY_REQUEST_AND_RESUME = {
  cell: 'by request',
  note: `Version 5 cannot post a decision. Send it to ${BY_REQUEST}, load the chat, then resume.`,
};

/**
 * A page whose stream has been let go.
 *
 * @param {World} world
 * @param {string} words
 */
async function letGo(world, words) {
  const page = await opens(world, { hold: '0s' });
  page.say(words);
  await page.settles();
  return page;
}

/**
 * Decides in the page if the client knows decisions. If not, decides by a request and returns its name.
 *
 * @param {World} world
 * @param {Page} page
 * @param {{ approved: boolean, reason?: string }} decision
 */
async function decides(world, page, { approved, reason }) {
  const { approvalId } = await page.isAsked('write_note');
  if (world.version === 5) {
    await world.answer({ approvalId, approved, reason });
    await page.resume();
    await page.settles();
    return BY_REQUEST_AND_RESUME;
  }
  await page.decide(approvalId, approved, reason);
  await page.postsAgain();
  return undefined;
}

/** @type {import('../../harness/findings.mjs').Group} */
export const postingAgain = {
  title: 'Posting the chat again (`hold: "0s"`)',
  capabilities: [
    {
      name: 'one output',
      shows: async (world) => {
        world.model.script((pen) => {
          pen.says('Let me look. ');
          pen.calls(locate);
        }, says('You are in Bern.'));
        const page = await letGo(world, 'where am I?');
        const { id } = page.reply;
        await page.output(await page.shows('get_location', 'input-available'), { city: 'Bern' });
        await page.postsAgain();
        assert.equal(page.reply.id, id);
        assert.deepEqual(typesOf(page), ['step-start', 'text', 'tool-get_location', 'step-start', 'text']);
        assert.equal(page.words, 'Let me look. You are in Bern.');
      },
    },
    {
      name: 'several outputs',
      shows: async (world) => {
        world.model.script(calls(locate, pick), says('Both.'));
        const page = await letGo(world, 'two things');
        await page.output(await page.shows('pick_color', 'input-available'), 'red');
        await page.settles();
        await page.output(await page.shows('get_location', 'input-available'), 'Bern');
        await page.postsAgain();
        assert.equal(page.words, 'Both.');
      },
    },
    {
      name: 'an output that is an error',
      shows: async (world) => {
        world.model.script(calls(locate), says('Pity.'));
        const page = await letGo(world, 'where am I?');
        await page.fails(await page.shows('get_location', 'input-available'), 'the person refused');
        await page.postsAgain();
        assert.match(world.model.request(2).results[0]?.text ?? '', /the person refused/);
        assert.equal(page.words, 'Pity.');
      },
    },
    {
      name: 'outputs in two steps',
      shows: async (world) => {
        world.model.script(calls(locate), calls(pick), says('Both.'));
        const page = await letGo(world, 'two things');
        await page.output(await page.shows('get_location', 'input-available'), 'Bern');
        await page.postsAgain();
        await page.output(await page.shows('pick_color', 'input-available'), 'red');
        await page.postsAgain();
        assert.equal(page.words, 'Both.');
        assert.equal(page.messages.length, 2);
      },
    },
    {
      name: 'an approval',
      shows: async (world) => {
        world.model.script(calls(write()), says('Noted.'));
        const page = await letGo(world, 'note: milk');
        const how = await decides(world, page, { approved: true });
        assert.equal(page.words, 'Noted.');
        assert.deepEqual(statesOf(page), ['output-available']);
        return how;
      },
    },
    {
      name: 'a denial with a reason',
      shows: async (world) => {
        world.model.script(calls(write()), says('Then not.'));
        const page = await letGo(world, 'note: milk');
        const how = await decides(world, page, { approved: false, reason: 'not on Sundays' });
        assert.equal(page.words, 'Then not.');
        assert.match(world.model.request(2).results[0]?.text ?? '', /not on Sundays/);
        assert.deepEqual(statesOf(page), [world.version === 5 ? 'output-error' : 'output-denied']);
        return how;
      },
    },
    {
      name: '"always" and edited input',
      shows: async (world) => {
        const edited = { title: 'shopping', body: 'oat milk' };
        world.model.script(calls(write()), says('Noted.'));
        const page = await letGo(world, 'note: milk');
        const { approvalId } = await page.isAsked('write_note');
        await world.answer({ approvalId, approved: true, always: true, input: edited });
        await page.resume();
        await ends(page, 'Noted.');
        assert.deepEqual(page.calls[0]?.input, edited);
        return {
          cell: 'by request',
          note: `The AI SDK's decisions carry neither: send them to ${BY_REQUEST}, load the chat, then resume.`,
        };
      },
    },
    {
      name: "a question, a page's call and a server's call in one step",
      shows: async (world) => {
        world.model.script(calls(write(), locate, time), says('All.'));
        const page = await letGo(world, 'three things');
        const how =
          world.version === 5 ? await decides(world, page, { approved: true }) : await decidesAll(page);
        const location = await page.shows('get_location', 'input-available');
        await page.settles();
        await page.output(location, 'Bern');
        await page.postsAgain();
        assert.equal(page.words, 'All.');
        assert.deepEqual(statesOf(page), Array(3).fill('output-available'));
        assert.equal(page.messages.length, 2);
        return how;
      },
    },
    {
      name: 'an output while the stream is still held (`hold: "1s"`)',
      shows: async (world) => {
        world.model.script(calls(locate), says('You are in Bern.'));
        const page = await opens(world, { hold: '1s' });
        page.say('where am I?');
        await page.output(await page.shows('get_location', 'input-available'), 'Bern');
        assert.equal(page.status, 'streaming');
        await page.postsAgain();
        assert.equal(page.words, 'You are in Bern.');
        return {
          cell: 'when the hold is over',
          note:
            'A client sends nothing while the stream is open. A page that only posts again sends `hold: "0s"`. ' +
            `Any other page answers with ${BY_REQUEST}.`,
        };
      },
    },
    {
      name: 'an output that another tab sent first',
      shows: async (world) => {
        world.model.script(calls(locate), says('You are in Bern.'));
        const page = await letGo(world, 'where am I?');
        const part = await page.shows('get_location', 'input-available');
        await world.answer({ toolCallId: part.toolCallId, output: 'Bern' });
        await page.output(part, 'Basel');
        await page.postsAgain();
        assert.equal(page.words, 'You are in Bern.');
        assert.equal(page.calls[0]?.output, 'Bern', 'what counts is what came first');
      },
    },
    {
      name: `an answer by ${BY_REQUEST} after the stream has ended, then resumed`,
      shows: async (world) => {
        world.model.script(calls(locate), says('You are in Bern.'));
        const page = await letGo(world, 'where am I?');
        const { toolCallId } = await page.shows('get_location', 'input-available');
        await world.answer({ toolCallId, output: 'Bern' });
        await page.resume();
        await ends(page, 'You are in Bern.');
      },
    },
  ],
};

/**
 * Every call that waits for the step has a question of its own, once the stream is let go.
 *
 * @param {Page} page
 */
async function decidesAll(page) {
  assert.deepEqual(statesOf(page), Array(3).fill('approval-requested'));
  for (const { approval } of page.calls) await page.decide(approval?.id ?? '', true);
  await page.postsAgain();
  return {
    cell: 'yes',
    note:
      'The helpers post only when no call of the step is open, so each of the three is ' +
      '`approval-requested`. Show the buttons for every part in that state.',
  };
}
