// The server is told which version of the AI SDK reads, and sends what that version knows.

import { afterEach, expect, test } from 'vitest';
import { isSince, knowsReset } from './deploys';
import { calls, client, says, version, World } from './world';

let world: World;
afterEach(() => world.end());

test('a post says which version of the AI SDK reads the answer', async () => {
  world = await World.create();
  world.model.script(says('Hello.'));
  const tab = world.tab();
  tab.say('hello');
  await tab.reads('Hello.');
  await world.agrees(tab);
  expect(tab.said).toEqual([{ client: version, show: 'all' }]);
});

test('an answer that was interrupted goes on, and the page shows no error', async () => {
  world = await World.create({ FERMATA_DRAIN: '0s' });
  world.model.script(async (pen) => {
    pen.says('Once ', 'upon ');
    await pen.gone;
  }, says('Once upon a time.'));
  const tab = world.tab();
  tab.say('tell');
  await tab.reads('upon');
  await world.server.end();
  await world.server.start();
  await tab.reads('Once upon a time.');
  await world.agrees(tab);
  expect(tab.errors).toEqual([]);
  expect(tab.chat.statuses).not.toContain('error');
  expect(tab.words).toBe('tellOnce upon a time.');
  // Where words can be taken back, it is one answer also to the page's program.
  if (knowsReset) expect(tab.chat.statuses).toEqual(['ready', 'submitted', 'streaming', 'ready']);
});

test('a question has what the version knows: the schema of the input, for a form to edit it', async () => {
  world = await World.create();
  world.model.script(
    calls({ name: 'write_note', input: { title: 'Milk', body: 'buy milk' } }),
    says('Written.'),
  );
  const tab = world.tab();
  tab.say('write');
  const id = await tab.isAsked('write_note');
  const { approval } = await tab.shows('write_note', client > 5 ? 'approval-requested' : 'input-available');
  const { descriptor } = (approval ?? {}) as { descriptor?: { inputSchema: { type: string } } };
  expect(descriptor?.inputSchema.type).toBe(isSince('7.0.87') ? 'object' : undefined);
  await tab.chat.addToolApprovalResponse({ id, approved: true });
  await tab.reads('Written.');
  await world.agrees(tab);
});
