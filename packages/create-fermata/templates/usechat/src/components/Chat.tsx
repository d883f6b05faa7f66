'use client';

import { useFermataChat } from 'fermata-chat/react';
import { useState } from 'react';
import { ChatList } from './ChatList';
import { Composer } from './Composer';
import { copyOf, isParked, isQuiet, type Message } from './fermata/record/message';
import { browserTools } from './fermata/tools';
import { Greeting } from './Greeting';
import { Header, newChatLabel } from './Header';
import { MessageView } from './MessageView';
import { Working } from './Parts';
import { useServerTools } from './useServerTools';

interface ChatProps {
  id: string;
  /** `true` if the page has just made up the id. */
  isNew: boolean;
  /** The address of a chat, without its id. */
  chatPath: string;
}

export function Chat({ id, isNew, chatPath }: ChatProps) {
  const { messages, status, connection, error, sendMessage, stop, regenerate, chat } =
    useFermataChat<Message>({
      id,
      isNew,
      tools: browserTools,
      throttle: 50,
    });
  const tools = useServerTools();
  const [listing, setListing] = useState(0);
  const isWaiting = isParked(messages.at(-1));
  const isBusy = status === 'submitted' || status === 'streaming' || isWaiting;
  const send = (text: string) => {
    // From now on, a reload or another tab shows the same chat.
    if (isNew) history.replaceState(null, '', chatPath + id);
    void sendMessage({ text });
  };
  return (
    <div className="flex h-dvh flex-col">
      <Header
        newChat={
          <a href="/" className="button">
            {newChatLabel}
          </a>
        }
        onShowChats={() => setListing(listing + 1)}
      >
        {listing > 0 && <ChatList key={listing} id={id} chatPath={chatPath} />}
      </Header>
      <main className="flex min-h-0 flex-1 flex-col">
        {/* A reversed column begins at its end, and stays there while the answer grows. */}
        <div className="flex min-h-0 flex-1 flex-col-reverse overflow-y-auto">
          <div className="column mb-auto space-y-6 py-6">
            {isNew && messages.length === 0 && status === 'ready' && <Greeting onChoose={send} />}
            {/* The AI SDK goes on writing in a message that grows, so each rendering gets a copy. */}
            {messages.map(copyOf).map((message, place) => (
              <MessageView
                key={message.id}
                {...{ message, chat, tools }}
                isGrowing={status === 'streaming' && place === messages.length - 1}
              />
            ))}
            {isQuiet(messages, status) && <Working />}
            {connection === 'reconnecting' && (
              <p role="status" className="text-sm text-wait">
                Reconnecting…
              </p>
            )}
            {error && (
              <div role="alert" className="rounded-xl bg-bad-soft px-4 py-3 text-sm text-bad">
                <p className="wrap-anywhere">{error.message}</p>
                <button type="button" className="button mt-2 text-ink" onClick={() => void regenerate()}>
                  Try again
                </button>
              </div>
            )}
          </div>
        </div>
        <p role="status" className="sr-only">
          {isWaiting
            ? 'The chat waits for you.'
            : isBusy
              ? 'The answer is being written.'
              : messages.length > 0 && 'Ready.'}
        </p>
        <Composer onSend={send} onStop={isBusy ? () => void stop() : undefined} />
      </main>
    </div>
  );
}
