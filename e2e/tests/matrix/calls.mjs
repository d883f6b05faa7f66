// @ts-check
// Calls that the server or an MCP server runs, and calls that the page runs, answered while the stream is
// open.

import assert from 'node:assert/strict';
import { calls, says } from '../../harness/fake-openai.mjs';
import { byHand, letGo } from '../../harness/mcp.mjs';
import { ends, locate, opens, pick, statesOf, time, typesOf } from './common.mjs';

/** @typedef {import('../../harness/findings.mjs').Group} Group */

const look = { name: 'hand__look', input: { key: 'x' } };

/** @type {Group} */
export const serverCalls = {
  title: 'Calls that the server runs',
  capabilities: [
    {
      name: 'a tool of the server, as `tool-<name>`',
      shows: async (world) => {
        world.model.script(calls(time), says('Late.'));
        const page = await opens(world);
        page.say('what time is it?');
        await ends(page, 'Late.');
        assert.deepEqual(typesOf(page), ['step-start', 'tool-current_time', 'step-start', 'text']);
        assert.deepEqual(statesOf(page), ['output-available']);
        assert.deepEqual(page.toolCalls, ['current_time'], 'calls of the server come by in onToolCall too');
        return {
          cell: 'yes',
          note: '`onToolCall` is also called for calls that the server runs. Check `toolName` before you run a tool.',
        };
      },
    },
    {
      name: 'a tool of an MCP server, as `dynamic-tool`',
      config: byHand,
      shows: async (world) => {
        await world.offers(look.name);
        world.model.script(calls(look), says('Seen.'));
        const page = await opens(world);
        page.say('look');
        await ends(page, 'Seen.');
        const [part] = page.calls;
        assert.deepEqual(
          [part?.type, part?.toolName, part?.state],
          ['dynamic-tool', look.name, 'output-available'],
        );
      },
    },
    {
      name: 'live output, as `preliminary` outputs',
      config: byHand,
      shows: async (world) => {
        await world.offers('hand__report');
        world.model.script(calls({ name: 'hand__report', input: {} }), says('Reported.'));
        const page = await opens(world);
        page.say('report');
        const part = await page.shows('hand__report', 'output-available');
        assert.deepEqual([part.preliminary, part.output], [true, { progress: 1, message: 'started' }]);
        letGo(world, 'report');
        await ends(page, 'Reported.');
        assert.equal(page.calls[0]?.preliminary, undefined);
        assert.match(JSON.stringify(page.calls[0]?.output), /"rows":3/);
      },
    },
    {
      name: 'a tool that fails, as `output-error`',
      config: byHand,
      shows: async (world) => {
        await world.offers('hand__fail');
        world.model.script(calls({ name: 'hand__fail', input: {} }), says('A pity.'));
        const page = await opens(world);
        page.say('fail');
        await ends(page, 'A pity.');
        assert.deepEqual(
          [page.calls[0]?.state, page.calls[0]?.errorText],
          ['output-error', 'the disk is full'],
        );
      },
    },
    {
      name: 'arguments that miss the schema, as `output-error`',
      shows: async (world) => {
        world.model.script(calls({ name: 'write_note', input: { title: 7 } }), says('Again.'));
        const page = await opens(world);
        page.say('note: milk');
        await ends(page, 'Again.');
        const [part] = page.calls;
        assert.equal(part?.state, 'output-error');
        const field = part?.input === undefined ? 'rawInput' : 'input';
        assert.deepEqual(part?.[field], { title: 7 });
        return { cell: 'yes', note: `The model's text is in \`${field}\` of the part.` };
      },
    },
  ],
};

/** @type {Group} */
export const pageCalls = {
  title: 'Calls that the page runs, answered while the stream is open',
  capabilities: [
    {
      name: 'one call',
      shows: async (world) => {
        world.model.script((pen) => {
          pen.says('Let me look. ');
          pen.calls(locate);
        }, says('You are in Bern.'));
        const page = await opens(world);
        page.say('where am I?');
        const { toolCallId, input } = await page.shows('get_location', 'input-available');
        assert.deepEqual(input, locate.input);
        await world.answer({ toolCallId, output: { city: 'Bern' } });
        await ends(page, 'Let me look. You are in Bern.');
        assert.deepEqual(typesOf(page), ['step-start', 'text', 'tool-get_location', 'step-start', 'text']);
        assert.deepEqual(page.calls[0]?.output, { city: 'Bern' });
        assert.deepEqual(page.toolCalls, ['get_location']);
      },
    },
    {
      name: 'several calls, in any order',
      shows: async (world) => {
        world.model.script(calls(locate, pick), says('Both.'));
        const page = await opens(world);
        page.say('two things');
        const location = await page.shows('get_location', 'input-available');
        const color = await page.shows('pick_color', 'input-available');
        await world.answer({ toolCallId: color.toolCallId, output: 'red' });
        await page.shows('pick_color', 'output-available');
        assert.equal(world.model.requests.length, 1, 'the model waits for both');
        await world.answer({ toolCallId: location.toolCallId, output: 'Bern' });
        await ends(page, 'Both.');
        assert.deepEqual(page.toolCalls, ['get_location', 'pick_color']);
      },
    },
    {
      name: 'a call that fails in the page',
      shows: async (world) => {
        world.model.script(calls(locate), says('Pity.'));
        const page = await opens(world);
        page.say('where am I?');
        const { toolCallId } = await page.shows('get_location', 'input-available');
        await world.answer({ toolCallId, errorText: 'the person refused' });
        await ends(page, 'Pity.');
        assert.deepEqual(
          [page.calls[0]?.state, page.calls[0]?.errorText],
          ['output-error', 'the person refused'],
        );
        assert.match(world.model.request(2).results[0]?.text ?? '', /the person refused/);
      },
    },
    {
      name: 'one that fails beside one that does not',
      shows: async (world) => {
        world.model.script(calls(locate, pick), says('One of two.'));
        const page = await opens(world);
        page.say('two things');
        const location = await page.shows('get_location', 'input-available');
        const color = await page.shows('pick_color', 'input-available');
        await world.answer({
          answers: [
            { toolCallId: location.toolCallId, errorText: 'no signal' },
            { toolCallId: color.toolCallId, output: 'red' },
          ],
        });
        await ends(page, 'One of two.');
        assert.deepEqual(statesOf(page), ['output-error', 'output-available']);
      },
    },
  ],
};
