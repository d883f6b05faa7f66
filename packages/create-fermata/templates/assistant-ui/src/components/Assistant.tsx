import {
  AssistantRuntimeProvider,
  AuiConfig,
  ThreadListPrimitive,
  Tools,
  type Toolkit,
} from '@assistant-ui/react';
import { useFermataRuntime } from 'fermata-chat/assistant-ui';
import { useState } from 'react';
import { browserTools } from './fermata/tools';
import { Header, newChatLabel } from './Header';
import { Call } from './MessageParts';
import { Thread } from './Thread';
import { Threads } from './Threads';

const repeatable = Object.keys(browserTools).filter((name) => browserTools[name]?.repeatable === true);

/** The tools of `fermata/tools`, as assistant-ui takes them. */
const toolkit: Toolkit = Object.fromEntries(
  Object.entries(browserTools).map(([name, { description = '', inputSchema, execute }]) => [
    name,
    {
      type: 'frontend',
      description,
      parameters: inputSchema as Record<string, unknown>,
      execute: (
        input: unknown,
        { toolCallId, abortSignal }: { toolCallId: string; abortSignal: AbortSignal },
      ) => Promise.resolve(execute?.(input, { toolCallId, signal: abortSignal })),
      render: Call,
    },
  ]),
);
const config = AuiConfig({ tools: Tools({ toolkit }) });

export function Assistant() {
  // The id of the chat is in the address, so that a reload shows the same chat.
  const [id, setId] = useState(new URLSearchParams(location.search).get('chat') ?? undefined);
  const runtime = useFermataRuntime({
    threadId: id,
    onThreadIdChange: (shown) => {
      setId(shown);
      history.replaceState(null, '', shown === undefined ? '/' : `/?chat=${encodeURIComponent(shown)}`);
    },
    repeatable,
  });
  return (
    <AssistantRuntimeProvider runtime={runtime} config={config}>
      <div className="flex h-dvh flex-col">
        <Header
          newChat={<ThreadListPrimitive.New className="button">{newChatLabel}</ThreadListPrimitive.New>}
        >
          <Threads />
        </Header>
        <main className="min-h-0 flex-1">
          <Thread />
        </main>
      </div>
    </AssistantRuntimeProvider>
  );
}
