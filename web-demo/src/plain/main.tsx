// The plain page: the chat that the URL names, in the frame that both pages share.

import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Frame } from '../chat/frame/Frame';
import { setUp } from '../chat/frame/setUp';
import { chatId } from '../chat/server/chatId';
import { useCell } from '../state/cell';
import { Conversation, useChatOf } from './Conversation';

setUp();

function Page() {
  const id = useCell(chatId);
  const chat = useChatOf(id);
  return (
    <Frame page="plain" chatId={id} chat={chat}>
      <Conversation key={id} id={id} chat={chat} />
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
