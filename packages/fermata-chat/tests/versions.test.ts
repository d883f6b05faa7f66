// The server is told which version of the AI SDK reads, and sends what that version knows.

import { afterEach, expect, test } from 'vitest';
import { says, version, World } from './world';

let world: World;
afterEach(() => world.end());

test('a post says which version of the AI SDK reads the answer', async () => {
  world = await World.create();
  world.model.script(says('Hello.'));
  const tab = world.tab();
  tab.say('hello');
  await tab.reads('Hello.');
  await world.agrees(tab);
  expect(tab.said).toEqual([{ client: version }]);
});
