import { fermata } from 'fermata-chat';
import { useEffect, useState } from 'react';
import type { OwnTools, ServerTool, ServerTools } from './fermata/record/toolState';

/** The request. All cards share it. */
let loading: Promise<ServerTools> | undefined;

async function load(): Promise<ServerTools> {
  const list = await fermata().request<{ tools: ServerTool[]; own: OwnTools }>('/api/tools');
  return { listed: list.tools, own: list.own };
}

/** The tools of the server. Their schemas make the forms for editing an input. */
export function useServerTools(): ServerTools | undefined {
  const [tools, setTools] = useState<ServerTools>();
  useEffect(() => {
    loading ??= load();
    loading.then(setTools, (error: unknown) => {
      // Without the list, the cards make their forms from the values. The next card asks again.
      loading = undefined;
      console.warn('The tools of the server could not be loaded.', error);
    });
  }, []);
  return tools;
}
