// @ts-check
// What a person does to the conversation itself, and where the packages have limits of their own.

import assert from 'node:assert/strict';
import { calls, says } from '../../harness/fake-openai.mjs';
import { Page } from '../../harness/page.mjs';
import { recites } from '../../harness/recital.mjs';
import { gate, until } from '../../harness/until.mjs';
import { ends, locate, opens, write } from './common.mjs';

/** @typedef {import('../../harness/findings.mjs').Group} Group */

/** @type {Group} */
export const conversation = {
  title: 'The conversation',
  capabilities: [
    {
      name: 'the next message',
      shows: async (world) => {
        world.model.script(says('One.'), says('Two.'));
        const page = await opens(world);
        page.say('first');
        await ends(page, 'One.');
        page.say('second');
        await ends(page, 'Two.');
        assert.deepEqual(world.model.request(2).words, ['user: first', 'assistant: One.', 'user: second']);
      },
    },
    {
      name: '`regenerate()`',
      shows: async (world) => {
        world.model.script(says('One.'), says('Uno.'));
        const page = await opens(world);
        page.say('count');
        await ends(page, 'One.');
        page.regenerate();
        await ends(page, 'Uno.');
        assert.equal(page.messages.length, 2);
        assert.deepEqual(world.model.request(2).words, ['user: count']);
      },
    },
    {
      name: 'an edited message',
      shows: async (world) => {
        world.model.script(says('One.'), says('Two.'), says('Uno.'));
        const page = await opens(world);
        page.say('count');
        await ends(page, 'One.');
        page.say('on');
        await ends(page, 'Two.');
        page.edit(page.messages[0]?.id ?? '', 'count in Italian');
        await ends(page, 'Uno.');
        assert.equal(page.messages.length, 2);
        assert.deepEqual(world.model.request(3).words, ['user: count in Italian']);
      },
    },
    {
      name: 'a new message while a call of the page waits',
      shows: async (world) => {
        world.model.script(calls(locate), says('Never mind.'));
        const page = await opens(world);
        page.say('where am I?');
        await page.shows('get_location', 'input-available');
        world.abandons(page.reply);
        page.say('something else');
        await ends(page, 'Never mind.');
        assert.deepEqual(
          page.messages.map(({ role }) => role),
          ['user', 'assistant', 'user', 'assistant'],
        );
        assert.deepEqual(await world.pending(), []);
      },
    },
    {
      name: 'a new message while a question waits',
      shows: async (world) => {
        world.model.script(calls(write()), says('Never mind.'));
        const page = await opens(world);
        page.say('note: milk');
        await page.isAsked('write_note');
        world.abandons(page.reply);
        page.say('something else');
        await ends(page, 'Never mind.');
        assert.deepEqual(await world.pending(), []);
        return {
          cell: 'yes',
          note: 'The open calls of the previous answer are cancelled. The page sees that when it loads the chat again.',
        };
      },
    },
    {
      name: '"yes" as a message while a question waits: the call runs',
      shows: async (world) => {
        world.model.script(calls(write()), says('Noted.'));
        const page = await opens(world);
        page.say('note: milk');
        await page.isAsked('write_note');
        world.abandons(page.reply);
        page.say('Yes!');
        await ends(page, 'Noted.');
        assert.deepEqual(await world.pending(), []);
        const messages = await world.stored();
        assert.deepEqual(
          messages.map(({ role }) => role),
          ['user', 'assistant', 'user', 'assistant'],
        );
        assert.match(JSON.stringify(messages[1]), /"state":"output-available"/);
        assert.equal(page.posts.length, 2);
        return {
          cell: 'yes',
          note:
            'The outcome of the call is in its own message, whose stream has ended. The page sees it when it ' +
            'loads the chat again. The answer continues in a new message.',
        };
      },
    },
    {
      name: 'a new message while the model writes',
      shows: async (world) => {
        world.model.script(async (pen) => {
          pen.says('One, ');
          await pen.gone;
        }, says('Never mind.'));
        const page = await opens(world);
        page.say('count');
        await page.reads('One, ');
        world.abandons(page.reply);
        page.say('something else');
        await ends(page, 'Never mind.');
        assert.deepEqual(
          page.messages.map(({ role }) => role),
          ['user', 'assistant', 'user', 'assistant'],
        );
        const [text] = page.parts('text').filter((part) => part.text === 'One, ');
        assert.equal(text?.state, 'streaming');
        return {
          cell: 'yes',
          note:
            'The partial previous answer stays on the page, and its text keeps `state: "streaming"`. Use the ' +
            '`status` of the chat, not the state of a part, to detect an active stream.',
        };
      },
    },
  ],
};

/** The chunks of a step that was begun again. */
const TAKEN_BACK = [
  { type: 'start', messageId: 'msg_1' },
  { type: 'start-step' },
  { type: 'text-start', id: 'text-1' },
  { type: 'text-delta', id: 'text-1', delta: 'Half a ' },
  { type: 'reset-step' },
  { type: 'text-start', id: 'text-1' },
  { type: 'text-delta', id: 'text-1', delta: 'A whole sentence.' },
  { type: 'text-end', id: 'text-1' },
  { type: 'finish-step' },
  { type: 'finish' },
];

/** @type {Group} */
export const limits = {
  title: 'Limits of the packages themselves',
  capabilities: [
    {
      name: '`stop()` in the answer to a message that was sent while another answer came',
      shows: async (world) => {
        const rest = gate();
        world.model.script(
          async (pen) => {
            pen.says('One, ');
            await pen.gone;
          },
          async (pen) => {
            pen.says('Never ');
            await rest.opened;
            pen.says('mind.');
          },
        );
        const page = await opens(world);
        page.say('count');
        await page.reads('One, ');
        world.abandons(page.reply);
        page.say('something else');
        await page.reads('Never ');
        await until(() => page.exchanges[0]?.ended, 'the first stream to end');
        await page.leave();
        rest.open();
        await page.settles();
        const left = page.words === 'Never ';
        await until(
          async () => JSON.stringify((await world.stored()).at(-1)).includes('Never mind.'),
          'the whole message',
        );
        await page.load();
        if (left) return undefined;
        return {
          cell: 'does nothing',
          note: 'This release forgets the newer stream when the older one ends. `POST /api/chat/{id}/stop` still works.',
        };
      },
    },
    {
      name: 'shown text is withdrawn (`reset-step`)',
      shows: async (world) => {
        const url = await recites(world, TAKEN_BACK);
        const page = await Page.open(world.client, url, world.id);
        page.say('talk');
        await page.settles();
        if (page.errors.length === 0) return assert.equal(page.words, 'A whole sentence.');
        assert.equal(page.status, 'error');
        return {
          cell: 'an error',
          note:
            'If an instance dies, another one requests the step again. Version 7 then receives `reset-step`, which ' +
            'withdraws the text shown so far. Releases before 7.0.70 do not know it, and versions 5 and 6 ' +
            'receive an `error`. ' +
            'After the error load the chat, then resume.',
        };
      },
    },
    {
      name: 'a question where the version was left unsaid (served as 6)',
      shows: async (world) => {
        world.expectErrors();
        world.model.script(calls(write()), says('Noted.'));
        const page = await opens(world, { silent: true });
        page.say('note: milk');
        await until(
          () => page.calls.some(({ state }) => state === 'approval-requested') || page.errors.length > 0,
          'a question or an error',
        );
        // A client that has failed already, at an earlier chunk of the call, may be ahead of the question.
        const toolCallId = await until(async () => {
          const [question] = /** @type {{ id: string }[]} */ (/** @type {unknown} */ (await world.pending()));
          return question?.id;
        }, 'the question among those that wait');
        await world.answer({ toolCallId, approved: true });
        await page.settles();
        await until(
          async () => JSON.stringify((await world.stored()).at(-1)).includes('Noted.'),
          'the end of the run in the record',
        );
        if (page.errors.length === 0) return undefined;
        await world.close(page);
        return {
          cell: 'the chat breaks',
          note:
            'The client ends the chat with an error, because it does not know the chunk. Send `fermata: { ' +
            'client: 5 }`.',
        };
      },
    },
  ],
};
