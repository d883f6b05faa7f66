import {
  ComposerPrimitive,
  MessagePrimitive,
  ThreadPrimitive,
  useAui,
  useAuiState,
} from '@assistant-ui/react';
import { useFermataThread } from 'fermata-chat/assistant-ui';
import { ArrowDown, ArrowUp, Square } from 'lucide-react';
import { isParked, isQuiet, type Message } from './fermata/record/message';
import { Greeting } from './Greeting';
import { LastGate, modelParts, userParts } from './MessageParts';
import { Working } from './Parts';

const messages = { UserMessage, AssistantMessage };

export function Thread() {
  const aui = useAui();
  const isNew = useAuiState(({ thread, threadListItem }) => {
    return thread.messages.length === 0 && threadListItem.remoteId === undefined;
  });
  return (
    <ThreadPrimitive.Root className="flex h-full flex-col">
      <div className="relative min-h-0 flex-1">
        <ThreadPrimitive.Viewport className="h-full overflow-y-auto">
          <div className="column space-y-6 py-6">
            {isNew && <Greeting onChoose={(text) => aui.thread.append(text)} />}
            <ThreadPrimitive.Messages components={messages} />
            <State />
          </div>
        </ThreadPrimitive.Viewport>
        <ThreadPrimitive.ScrollToBottom className="button absolute bottom-3 left-1/2 -translate-x-1/2 shadow-md disabled:hidden">
          <ArrowDown className="size-4" aria-hidden />
          To the end
        </ThreadPrimitive.ScrollToBottom>
      </div>
      <Composer />
    </ThreadPrimitive.Root>
  );
}

function UserMessage() {
  return (
    <MessagePrimitive.Root asChild>
      <article
        aria-label="You"
        className="ms-auto w-fit max-w-[85%] rounded-2xl rounded-ee-md bg-accent-soft px-4 py-2.5"
      >
        <MessagePrimitive.Parts components={userParts} />
      </article>
    </MessagePrimitive.Root>
  );
}

function AssistantMessage() {
  const isLast = useAuiState(({ message }) => message.isLast);
  return (
    <MessagePrimitive.Root asChild>
      <article aria-label="Assistant" className="space-y-3">
        <MessagePrimitive.Parts components={modelParts} />
        {isLast && <LastGate />}
      </article>
    </MessagePrimitive.Root>
  );
}

/** The notices below the messages. */
function State() {
  const chat = useFermataThread();
  if (chat === undefined) return null;
  return (
    <>
      {isQuiet(chat.messages as Message[], chat.status) && <Working />}
      {chat.error && (
        <div role="alert" className="rounded-xl bg-bad-soft px-4 py-3 text-sm text-bad">
          <p className="wrap-anywhere">{chat.error.message}</p>
          <button type="button" className="button mt-2 text-ink" onClick={() => void chat.regenerate()}>
            Try again
          </button>
        </div>
      )}
    </>
  );
}

function Composer() {
  const chat = useFermataThread();
  const isWaiting = isParked(chat?.messages.at(-1) as Message | undefined);
  const isBusy = chat?.status === 'submitted' || chat?.status === 'streaming' || isWaiting;
  return (
    <ComposerPrimitive.Root className="column pb-4">
      <p role="status" className="sr-only">
        {isWaiting ? 'The chat waits for you.' : isBusy ? 'The answer is being written.' : 'Ready.'}
      </p>
      <div className="flex items-end gap-2 rounded-2xl border border-field bg-raised p-2 focus-within:border-accent">
        <ComposerPrimitive.Input
          aria-label="Message"
          placeholder="Write a message"
          dir="auto"
          rows={1}
          className="max-h-[40dvh] min-h-11 flex-1 resize-none bg-transparent px-2 py-2.5 outline-none placeholder:text-muted"
        />
        {isBusy && (
          <button
            type="button"
            aria-label="Stop"
            onClick={() => void chat?.stop()}
            className="grid size-11 shrink-0 place-items-center rounded-xl border border-field hover:border-accent"
          >
            <Square className="size-4 fill-current" aria-hidden />
          </button>
        )}
        <ComposerPrimitive.Send
          aria-label="Send"
          className="grid size-11 shrink-0 place-items-center rounded-xl bg-accent text-accent-ink"
        >
          <ArrowUp className="size-5" aria-hidden />
        </ComposerPrimitive.Send>
      </div>
    </ComposerPrimitive.Root>
  );
}
