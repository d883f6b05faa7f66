// The tools there are: the server's, and the page's own. Asked for once per page.

import { Cell, useCell } from '../../state/cell';
import { browserTools } from '../../tools';
import type { OwnTools, ServerTool, ServerTools } from '../record/toolState';
import { server } from './server';

export interface Tools {
  state: 'loading' | 'known' | 'failed';
  /** The response of `GET /api/tools`; `undefined` until it is known. */
  tools?: ServerTools;
}

/** A tool that can be chosen. */
export interface Choosable {
  name: string;
  from: 'server' | 'mcp' | 'browser';
}

/** The answer of `GET /api/tools`. A server of an earlier version does not name its own. */
export interface ToolList {
  tools: ServerTool[];
  own?: OwnTools;
}

const tools = new Cell<Tools | undefined>(undefined);

/** Loads the list, unless it is there or under way. */
export async function loadTools(): Promise<void> {
  if (tools.value?.state === 'known' || tools.value?.state === 'loading') return;
  tools.set({ state: 'loading' });
  try {
    const { tools: listed, own } = await server.request<ToolList>('/api/tools');
    tools.set({ state: 'known', tools: { listed, ...(own && { own }) } });
  } catch {
    tools.set({ state: 'failed' });
  }
}

export const useTools = (): Tools => useCell(tools) ?? { state: 'loading' };

/** Both kinds, by name. */
export const choosable = (listed: readonly ServerTool[] = []): Choosable[] => [
  ...listed.map(({ name, runBy }): Choosable => ({ name, from: runBy })),
  ...Object.keys(browserTools).map((name): Choosable => ({ name, from: 'browser' })),
];
