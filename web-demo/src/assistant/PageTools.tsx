// The tools of this page as assistant-ui's: those with `execute` it runs, the others are answered by their
// cards.

import { useAui, type Tool } from '@assistant-ui/react';
import { useEffect } from 'react';
import type { BrowserTool } from 'fermata-chat';
import { browserTools } from '../tools';

function assistantTool({ description, inputSchema, execute }: BrowserTool): Tool {
  const told = {
    ...(description !== undefined && { description }),
    parameters: inputSchema as Record<string, unknown>,
  };
  if (execute === undefined) return { type: 'human', ...told };
  return {
    type: 'frontend',
    ...told,
    execute: (
      input: unknown,
      { toolCallId, abortSignal }: { toolCallId: string; abortSignal: AbortSignal },
    ) => execute(input, { toolCallId, signal: abortSignal }),
  };
}

const context = {
  tools: Object.fromEntries(Object.entries(browserTools).map(([name, tool]) => [name, assistantTool(tool)])),
};

export function PageTools() {
  const aui = useAui();
  useEffect(() => aui.modelContext.register({ getModelContext: () => context }), [aui]);
  return null;
}
