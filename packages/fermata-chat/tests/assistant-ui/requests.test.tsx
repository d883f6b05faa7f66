// Requests as assistant-ui's own UI shows them: the options with their grants, the words, the end, and questions.

import { expect, test } from 'vitest';
import { alwaysOf, withOptions } from '../../src/assistant-ui/approvals.js';
import { calls, says, until } from '../world';
import { open, start, world } from './start';

const FETCH = { name: 'fetch_url', input: { url: 'https://docs.example.com/guide' } };
const WEB = { FERMATA_BUILTIN: 'notes,web,ask_user' };
const question = (fields: object) =>
  calls({ name: 'ask_user', input: { questions: [{ id: 'size', question: 'Which size?', ...fields }] } });

test('"always" is an option for the scope of the call, with what it grants', async () => {
  await start(undefined, WEB);
  world.model.script(calls(FETCH), says('It could not be read.'));
  const tab = open();
  await tab.say('read it');
  const call = await tab.asks('fetch_url');
  const covers = 'every call of fetch_url for docs.example.com';
  expect(call.approval?.options).toEqual([
    { id: 'once', kind: 'allow-once' },
    {
      id: 'always',
      kind: 'allow-always',
      label: 'Always for docs.example.com',
      description: covers,
      grants: [covers],
    },
    { id: 'deny', kind: 'reject-once' },
  ]);
  await tab.part(call).respondToToolApproval({ optionId: 'always' });
  await tab.reads('It could not be read.');
  expect(tab.bodies.find((body) => 'approvalId' in body)).toMatchObject({ approved: true, always: true });
});

test('each scope is an option, and the answer names the scope that was chosen', () => {
  const scopes = [
    { id: 'folder:/srv', label: '/srv', covers: 'files in /srv' },
    { id: 'server:files', label: 'files', covers: 'the tools of files' },
  ];
  const part = {
    type: 'tool-read',
    toolCallId: 'a',
    state: 'approval-requested',
    input: {},
    approval: { id: 'b', descriptor: { tool: 'read', scopes } },
  } as const;
  const { approval } = withOptions(part) as unknown as { approval: { options: { id: string }[] } };
  const ids = approval.options.map(({ id }) => id);
  expect(ids).toEqual(['once', 'always', 'always:server:files', 'deny']);
  expect(ids.map(alwaysOf)).toEqual([undefined, true, { scope: 'server:files' }, undefined]);
});

test('a request says in words what the call does', async () => {
  await start();
  world.model.script(calls({ name: 'write_note', input: { title: 'Milk', body: 'Two litres.' } }));
  const tab = open();
  await tab.say('note');
  const { approval } = await tab.asks('write_note');
  expect(approval?.prompt).toMatch(/^Write the note “Milk”/);
});

test('a request that ends without a decision has its resolution, even after a reload', async () => {
  await start();
  world.model.script(calls({ name: 'write_note', input: { title: 'Milk', body: 'Two litres.' } }));
  const first = open();
  await first.say('note');
  await first.asks('write_note');
  await first.chat.stop();
  await first.shows('write_note', ({ approval }) => approval?.resolution === 'cancelled');
  const second = open({ threadId: first.chat.id });
  await second.begun();
  const { approval } = await second.shows('write_note', ({ result }) => result !== undefined);
  expect(approval?.resolution).toBe('cancelled');
});

test('a question with choices is a request to select', async () => {
  await start(undefined, WEB);
  world.model.script(question({ choices: ['S', 'M', 'L'], guess: 'M' }), says('So it is S.'));
  const tab = open();
  await tab.say('order a shirt');
  const call = await tab.asks('ask_user');
  expect(call.approval).toMatchObject({ display: 'select', dismissible: true });
  expect(call.approval?.prompt).toContain('Which size?');
  expect(call.approval?.options?.map(({ label }) => label)).toEqual(['S', 'M', 'L']);
  await until(() => tab.messages.at(-1)?.status?.type === 'requires-action', 'the message to require action');
  await tab.part(call).respondToToolApproval({ optionId: 'S' });
  await tab.reads('So it is S.');
  expect(world.model.request(2).results[0]?.text).toContain('"S"');
});

test('a question without choices takes a text, and can be dismissed', async () => {
  await start(undefined, WEB);
  world.model.script(question({ guess: 'M' }), question({ guess: 'M' }), says('So it is M.'));
  const tab = open();
  await tab.say('order a shirt');
  const first = await tab.asks('ask_user');
  expect(first.approval).toMatchObject({ display: 'text' });
  await tab.part(first).respondToToolApproval({ text: 'XL' });
  const second = await tab.shows(
    'ask_user',
    ({ toolCallId, approval }) => toolCallId !== first.toolCallId && approval !== undefined,
  );
  await tab.part(second).respondToToolApproval({ approved: false });
  await tab.reads('So it is M.');
  expect(world.model.request(2).results[0]?.text).toContain('XL');
});
