// The page with assistant-ui: the same chats as the plain page, in the same frame, built from assistant-ui's
// primitives.

import { AssistantRuntimeProvider } from '@assistant-ui/react';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Frame } from '../chat/frame/Frame';
import { setUp } from '../chat/frame/setUp';
import { PAGE } from '../chat/messages/MessageList';
import { chatId, isNewChat, showChat } from '../chat/server/chatId';
import { options } from '../chat/server/server';
import { useCell } from '../state/cell';
import { useFermataRuntime, useFermataThread } from 'fermata-chat/assistant-ui';
import { browserTools } from '../tools';
import { attachments } from './attachments';
import { Conversation } from './Conversation';
import { PageTools } from './PageTools';
import { Threads } from './Threads';

setUp();

const repeatable = Object.keys(browserTools).filter((name) => browserTools[name]?.repeatable === true);

function Page() {
  const id = useCell(chatId);
  const runtime = useFermataRuntime({
    ...options,
    repeatable,
    throttle: 50,
    newest: PAGE,
    runtime: { adapters: { attachments } },
    threadId: id,
    isNew: isNewChat,
    onThreadIdChange: (shown) => {
      if (shown !== undefined) showChat(shown);
    },
  });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <PageTools />
      <Framed id={id} />
    </AssistantRuntimeProvider>
  );
}

function Framed({ id }: { id: string }) {
  const chat = useFermataThread();
  return (
    <Frame page="assistant" chatId={id} chat={chat} list={(onShow) => <Threads onShow={onShow} />}>
      <Conversation key={id} id={id} />
    </Frame>
  );
}

const root = document.getElementById('root');
if (root)
  createRoot(root).render(
    <StrictMode>
      <Page />
    </StrictMode>,
  );
