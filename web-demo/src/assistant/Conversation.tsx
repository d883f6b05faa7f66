// The thread that is shown: its messages, the newest at the end, and where one writes.

import { ThreadPrimitive, useAui, useAuiState } from '@assistant-ui/react';
import { ArrowDown } from 'lucide-react';
import { useEffect, useRef, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { focusComposer } from '../chat/ui/focusComposer';
import { RetriesProvider } from '../chat/calls/Retries';
import { SummaryLine } from '../chat/context/SummaryLine';
import { Greeting } from '../chat/frame/Greeting';
import { Announcer } from '../chat/messages/Announcer';
import { Earlier, Failure, Working } from '../chat/messages/MessageList';
import { tryAgain } from '../chat/messages/tryAgain';
import { useKeptPlace } from '../chat/messages/useKeptPlace';
import { isParked, isQuiet, type Message } from '../chat/record/message';
import { isNewChat } from '../chat/server/chatId';
import { unknownChats } from '../chat/server/server';
import { useCell } from '../state/cell';
import { useFermataThread, useFermataEarlier, type AssistantChat } from 'fermata-chat/assistant-ui';
import { useGivenBack, useUnsent } from 'fermata-chat/react';
import { AssistantMessage, UserEditComposer, UserMessage } from './messages';
import { Writer } from './Writer';

const MESSAGES = { UserMessage, AssistantMessage, UserEditComposer };

export function Conversation({ id }: { id: string }) {
  const { t } = useTranslation();
  const count = useAuiState(({ thread }) => thread.messages.length);
  const isShown = useAuiState(
    ({ threads, threadListItem }) =>
      threads.mainThreadId === threadListItem.id && threadListItem.remoteId === id,
  );
  const earlier = useFermataEarlier();
  const scroller = useRef<HTMLDivElement>(null);
  const keepPlace = useKeptPlace(scroller, count);
  // Where one begins, one begins to write.
  useEffect(() => {
    if (isNewChat(id)) focusComposer();
  }, [id]);
  return (
    <ThreadPrimitive.Root className="flex min-h-0 flex-1 flex-col">
      <div className="relative min-h-0 flex-1">
        {/* A greeting is read from its beginning. A thread with messages scrolls to its end as it appears. */}
        <ThreadPrimitive.Viewport
          ref={scroller}
          autoScroll={count > 0}
          scrollToBottomOnThreadSwitch={false}
          className="h-full overflow-y-auto overscroll-contain"
        >
          <div className="column flow-root pb-8">
            {isShown && count === 0 && <Empty id={id} />}
            {earlier.count > 0 && (
              <Earlier
                onReached={() => {
                  keepPlace();
                  earlier.show();
                }}
              />
            )}
            <SummaryOfEarlier count={earlier.count} />
            <WithRetries>
              <div role="log" aria-label={t('messages.label')} aria-live="off">
                {Array.from({ length: count }, (_, place) => (
                  <ThreadPrimitive.MessageByIndex
                    key={earlier.count + place}
                    index={place}
                    components={MESSAGES}
                  />
                ))}
              </div>
            </WithRetries>
            <State />
          </div>
        </ThreadPrimitive.Viewport>
        <ThreadPrimitive.ScrollToBottom
          className={
            'button absolute bottom-3 left-1/2 -translate-x-1/2 rounded-full shadow-md ' + 'disabled:hidden'
          }
        >
          <ArrowDown className="size-4" aria-hidden="true" />
          {t('messages.newest')}
        </ThreadPrimitive.ScrollToBottom>
      </div>
      <Writer id={id} isShown={isShown} />
    </ThreadPrimitive.Root>
  );
}

/** The placeholder for messages: lines to begin with, or the notice that the chat is being loaded. */
function Empty({ id }: { id: string }) {
  const { t } = useTranslation();
  const aui = useAui();
  const chat = useFermataThread();
  const isUnknown = useCell(unknownChats).has(id);
  if (isUnknown || isNewChat(id))
    return (
      <Greeting
        id={id}
        onChoose={(line) => {
          aui.thread.append(line);
        }}
      />
    );
  return chat?.error === undefined && <p className="pt-8 text-sm text-muted">{t('messages.loading')}</p>;
}

function WithRetries({ children }: { children: ReactNode }) {
  const chat = useFermataThread();
  return <RetriesProvider messages={chat?.messages ?? []}>{children}</RetriesProvider>;
}

/** The summary, if the messages that it covers are not shown. */
function SummaryOfEarlier({ count }: { count: number }) {
  const chat = useFermataThread();
  return chat && <SummaryLine chat={chat} after={chat.messages.slice(0, count)} />;
}

/** The notices below the messages. */
function State() {
  const chat = useFermataThread();
  if (chat === undefined) return null;
  const messages = chat.messages as Message[];
  const onTryAgain = () => {
    tryAgain(chat, messages.at(-1));
  };
  return (
    <>
      <Announcer isUnderWay={chat.status === 'streaming' || isParked(messages.at(-1))} />
      {isQuiet(messages, chat.status) && <Quiet chat={chat} />}
      {chat.error && <Failed chat={chat} error={chat.error} onTryAgain={onTryAgain} />}
    </>
  );
}

/** Nothing is done while the message of the person waits for the network. */
function Quiet({ chat }: { chat: AssistantChat }) {
  return useUnsent(chat)?.isWaiting === true ? null : <Working />;
}

/** The composer has the words of a message that was not taken, with the reason. */
function Failed({ chat, ...props }: { chat: AssistantChat; error: Error; onTryAgain: () => void }) {
  return useGivenBack(chat)?.error === props.error ? null : <Failure {...props} />;
}
