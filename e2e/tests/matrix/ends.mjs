// @ts-check
// What ends an answer before its time, and what fails.

import assert from 'node:assert/strict';
import { calls, refuses, says } from '../../harness/fake-openai.mjs';
import { BROWSER_TOOLS } from '../../harness/scenario.mjs';
import { until } from '../../harness/until.mjs';
import { ends, locate, opens, statesOf, time, write } from './common.mjs';

/** @typedef {import('../../harness/findings.mjs').Group} Group */

/** @type {Group} */
export const stops = {
  title: 'Stop',
  capabilities: [
    {
      name: '`POST /api/chat/{id}/stop` while the model writes',
      shows: async (world) => {
        const { model } = world;
        model.script(async (pen) => {
          pen.says('One, ');
          await pen.gone;
        }, says('Hello again.'));
        const page = await opens(world);
        page.say('count');
        await page.reads('One, ');
        await world.stop();
        await until(() => model.request(1).gone, 'the connection to the model to be closed');
        await ends(page, 'One, ');
        page.say('hello');
        await ends(page, 'Hello again.');
      },
    },
    {
      name: 'the same while a call of the page waits',
      shows: async (world) => {
        world.model.script(calls(locate), says('Hello again.'));
        const page = await opens(world);
        page.say('where am I?');
        await page.shows('get_location', 'input-available');
        await world.stop();
        await page.settles();
        assert.deepEqual(statesOf(page), ['output-error']);
        page.say('hello');
        await ends(page, 'Hello again.');
      },
    },
    {
      name: 'the same while a question waits',
      shows: async (world) => {
        world.model.script(calls(write()), says('Hello again.'));
        const page = await opens(world);
        page.say('note: milk');
        await page.isAsked('write_note');
        await world.stop();
        await page.settles();
        assert.deepEqual(statesOf(page), ['output-error']);
        page.say('hello');
        await ends(page, 'Hello again.');
      },
    },
    {
      name: "the client's own `stop()`",
      shows: async (world) => {
        let goes = () => {};
        world.model.script(async (pen) => {
          pen.says('One, ');
          await /** @type {Promise<void>} */ (new Promise((resolve) => (goes = resolve)));
          pen.says('two.');
        });
        const page = await opens(world);
        page.say('count');
        await page.reads('One, ');
        await page.leave();
        await page.settles();
        assert.equal(world.model.request(1).gone, false);
        goes();
        const text = async () =>
          (await world.stored()).at(-1)?.parts.find((part) => part.type === 'text')?.text;
        await until(async () => (await text()) === 'One, two.', 'the whole message in the record');
        await page.load();
        return {
          cell: 'leaves only',
          note:
            'It closes only the connection, as a reload does, and the answer continues. Send `POST ' +
            '/api/chat/{id}/stop` as well.',
        };
      },
    },
  ],
};

/** @type {Group} */
export const errors = {
  title: 'Failures and ends',
  capabilities: [
    {
      name: 'a refusal before the stream, then the same again',
      settings: { FERMATA_RUNS_PER_OWNER: '1' },
      shows: async (world) => {
        world.expectErrors();
        world.model.script(calls(locate));
        const other = await world.post('where am I?', { id: 'other', tools: BROWSER_TOOLS });
        await other.sees('tool-input-available');
        const page = await opens(world);
        page.say('hello');
        await page.settles();
        assert.equal(page.status, 'error');
        assert.equal(page.exchanges[0]?.status, 429);
        const problem = JSON.parse(page.errors[0]?.message ?? '');
        assert.equal(problem.status, 429);
        assert.equal(typeof problem.detail, 'string');
        assert.equal((await world.request('POST', '/api/chat/other/stop')).status, 204);
        await other.toEnd();
        world.model.script(says('Hello.'));
        page.regenerate();
        await ends(page, 'Hello.');
        return {
          cell: 'yes',
          note:
            "The error's `message` is the body of the response, a problem document: show " +
            '`JSON.parse(error.message).detail`. `regenerate()` retries the message.',
        };
      },
    },
    {
      name: 'a model API that refuses, then the next message',
      shows: async (world) => {
        world.expectErrors();
        world.model.script(refuses(400), says('Back.'));
        const page = await opens(world);
        page.say('hello');
        await page.settles();
        assert.deepEqual([page.status, page.errors.length], ['error', 1]);
        page.say('still there?');
        await ends(page, 'Back.');
      },
    },
    {
      name: 'a model API that breaks off: what came stays',
      shows: async (world) => {
        world.expectErrors();
        const page = await opens(world);
        world.model.script(async (pen) => {
          pen.says('One, ');
          await page.reads('One, ');
          pen.breaksOff();
        }, says('Back.'));
        page.say('count');
        await page.settles();
        assert.deepEqual([page.status, page.words], ['error', 'One, ']);
        page.say('go on');
        await ends(page, 'Back.');
      },
    },
    {
      name: 'a call that the model API breaks off in',
      shows: async (world) => {
        world.expectErrors();
        const page = await opens(world);
        world.model.script(async (pen) => {
          pen.argues(pen.begins('get_location', 'call_1'), '{"accuracy": "hi');
          await page.shows('get_location', 'input-streaming');
          pen.breaksOff();
        }, says('Back.'));
        page.say('where am I?');
        await page.settles();
        assert.equal(page.status, 'error');
        assert.deepEqual(page.toolCalls, [], 'the page is not told to run it');
        page.say('hello?');
        await ends(page, 'Back.');
      },
    },
    {
      name: 'a call that nobody answers in time',
      settings: { FERMATA_EXPIRE: '1s' },
      shows: async (world) => {
        world.model.script(calls(locate), says('Hello again.'));
        const page = await opens(world);
        page.say('where am I?');
        await page.shows('get_location', 'output-error');
        await page.settles();
        assert.match(page.calls[0]?.errorText ?? '', /expired/i);
        page.say('hello');
        await ends(page, 'Hello again.');
      },
    },
    {
      name: 'a restart of the server while a call of the page waits',
      shows: async (world) => {
        world.expectErrors();
        world.model.script(calls(locate), says('You are in Bern.'));
        const page = await opens(world);
        page.say('where am I?');
        await page.shows('get_location', 'input-available');
        await world.server.end();
        await page.settles();
        const { status } = page;
        await world.server.start();
        await page.load();
        const resumed = page.follow();
        const { toolCallId } = await page.shows('get_location', 'input-available');
        await world.answer({ toolCallId, output: 'Bern' });
        await resumed;
        await ends(page, 'You are in Bern.');
        assert.equal(page.messages.length, 2);
        return { cell: 'yes', note: `The chat is then in status \`${status}\`: load it again, then resume.` };
      },
    },
    {
      name: 'the step limit: the answer ends and nothing is posted again',
      settings: { FERMATA_MAX_STEPS: '2' },
      shows: async (world) => {
        world.model.script(calls(time), calls(time));
        const page = await opens(world);
        page.say('what time is it?');
        await page.settles();
        assert.equal(world.model.requests.length, 2);
        assert.equal(page.status, 'ready');
      },
    },
  ],
};
