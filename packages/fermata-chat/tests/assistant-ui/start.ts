// What every test begins and ends with: a world of its own, and tabs that are closed before it.

import { afterEach } from 'vitest';
import { World } from '../world';
import { AssistantTab } from './tab';

export let world: World;
let tabs: AssistantTab[] = [];

/**
 * @param config what the server's `fermata.toml` says
 * @param settings environment variables of the server
 */
export async function start(config?: string, settings: Record<string, string> = {}) {
  world = await World.create(settings);
  if (config !== undefined) await world.server.reconfigure(config);
}

export function open(options: ConstructorParameters<typeof AssistantTab>[1] = {}) {
  const tab = new AssistantTab(world, options);
  tabs.push(tab);
  return tab;
}

afterEach(async () => {
  for (const tab of tabs) tab.close();
  tabs = [];
  await world.end();
});
