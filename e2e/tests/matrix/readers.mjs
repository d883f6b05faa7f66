// @ts-check
// Pages that come back, second tabs, and connections that break.

import assert from 'node:assert/strict';
import { calls, says } from '../../harness/fake-openai.mjs';
import { gate, until } from '../../harness/until.mjs';
import { ends, locate, opens, write } from './common.mjs';

/** @typedef {import('./common.mjs').World} World */
/** @typedef {import('../../harness/findings.mjs').Group} Group */

const NEW_CHAT = {
  cell: 'with a new `Chat`',
  note:
    'After a lost connection this release continues the message and cannot read it from its start. Create ' +
    'a new `Chat` (with `useChat`: change the `key` of the component), load the chat into it, then resume.',
};

const DOUBLES = {
  cell: 'doubled',
  note:
    'This release appends the message from the stream to the shown text. Load `GET /api/chat/{id}` first: ' +
    'it omits the unfinished message.',
};

/**
 * A page whose connection breaks while the model writes, and what lets the model go on.
 *
 * @param {World} world
 */
async function cutOff(world) {
  const rest = gate();
  world.model.script(async (pen) => {
    pen.reasons('Hm. ');
    pen.says('One, ');
    await rest.opened;
    pen.says('two, three.');
  });
  world.expectErrors();
  const page = await opens(world);
  page.say('count');
  await page.reads('One, ');
  page.cutOff();
  await page.settles();
  assert.equal(page.status, 'error');
  return { page, rest };
}

/** @type {Group} */
export const readers = {
  title: 'Pages that come back',
  capabilities: [
    {
      name: 'a reload while the model writes',
      shows: async (world) => {
        const rest = gate();
        world.model.script(async (pen) => {
          pen.says('One, ');
          await rest.opened;
          pen.says('two.');
        });
        const before = await opens(world);
        before.say('count');
        await before.reads('One, ');
        await world.close(before);
        const page = await opens(world);
        const resumed = page.resume();
        await page.reads('One, ');
        rest.open();
        await resumed;
        await ends(page, 'One, two.');
        assert.equal(page.messages.length, 2);
      },
    },
    {
      name: 'a reload while a call of the page waits',
      shows: async (world) => {
        world.model.script(calls(locate), says('You are in Bern.'));
        const before = await opens(world);
        before.say('where am I?');
        await before.shows('get_location', 'input-available');
        await world.close(before);
        const page = await opens(world);
        const resumed = page.resume();
        const { toolCallId } = await page.shows('get_location', 'input-available');
        await world.answer({ toolCallId, output: 'Bern' });
        await resumed;
        await ends(page, 'You are in Bern.');
        assert.deepEqual(page.toolCalls, ['get_location']);
        return {
          cell: 'yes',
          note: '`onToolCall` is called again for a call that still waits. Repeating the same answer is harmless.',
        };
      },
    },
    {
      name: 'a reload while a question waits',
      shows: async (world) => {
        world.model.script(calls(write()), says('Noted.'));
        const before = await opens(world);
        before.say('note: milk');
        await before.isAsked('write_note');
        await world.close(before);
        const page = await opens(world);
        const resumed = page.resume();
        const { approvalId } = await page.isAsked('write_note');
        await world.answer({ approvalId, approved: true });
        await resumed;
        await ends(page, 'Noted.');
      },
    },
    {
      name: 'a reload where nothing is being written',
      shows: async (world) => {
        world.model.script(says('Hello.'));
        const before = await opens(world);
        before.say('hello');
        await ends(before, 'Hello.');
        await until(async () => (await (await world.follow()).toEnd()).status === 204, 'the run to be over');
        const page = await opens(world);
        await page.resume();
        await ends(page, 'Hello.');
        assert.deepEqual([page.status, page.exchanges[0]?.status], ['ready', 204]);
      },
    },
    {
      name: 'a second tab sees the call, answers it, and the first goes on',
      shows: async (world) => {
        world.model.script(calls(locate), says('You are in Bern.'));
        const first = await opens(world);
        first.say('where am I?');
        await first.shows('get_location', 'input-available');
        const second = await opens(world);
        const resumed = second.resume();
        const { toolCallId } = await second.shows('get_location', 'input-available');
        await world.answer({ toolCallId, output: 'Bern' });
        await resumed;
        await ends(first, 'You are in Bern.');
        await second.settles();
        assert.deepEqual(second.reply, first.reply);
      },
    },
    {
      name: 'one of two questions is answered in the other tab',
      shows: async (world) => {
        world.model.script(calls(write(), write('work')), says('Both.'));
        const first = await opens(world);
        first.say('two notes');
        const { toolCallId } = await first.isAsked('write_note');
        await until(async () => (await world.pending()).length === 2, 'two questions');
        await world.answer({ toolCallId, approved: true });
        const second = await opens(world);
        const resumed = second.resume();
        await second.isAsked('write_note');
        const [other] = await world.pending();
        assert.notEqual(other?.id, toolCallId, 'the list of what waits knows it at once');
        await world.answer({ toolCallId: other?.id, approved: true });
        await resumed;
        await ends(first, 'Both.');
        await second.settles();
        const isTold = first.exchanges[0]?.chunks.some(({ type }) => type === 'tool-approval-response');
        if (isTold) return undefined;
        return {
          cell: 'shown later',
          note:
            'A decision made elsewhere shows when its call runs. In a step with several approvals that is after ' +
            'the last one. Until then `GET /api/chat/{id}/pending` lists the waiting calls.',
        };
      },
    },
    {
      name: 'a broken connection, the chat loaded again, then resumed',
      shows: async (world) => {
        const { page, rest } = await cutOff(world);
        await page.load();
        assert.equal(page.messages.length, 1, 'the message being written is not in the record');
        const resumed = page.follow();
        await page.reads('One, ');
        rest.open();
        await resumed;
        await page.settles();
        if (page.words === 'One, two, three.') return undefined;
        await world.close(page);
        const fresh = await opens(world);
        await fresh.resume();
        await ends(fresh, 'One, two, three.');
        return NEW_CHAT;
      },
    },
    {
      name: 'a broken connection, resumed without loading',
      shows: async (world) => {
        const { page, rest } = await cutOff(world);
        const resumed = page.follow();
        await until(() => page.exchanges[1]?.status === 200, 'the stream again');
        rest.open();
        await resumed;
        await page.settles();
        if (page.words === 'One, two, three.') return undefined;
        await world.close(page);
        assert.equal(page.words, 'One, One, two, three.');
        return DOUBLES;
      },
    },
  ],
};
