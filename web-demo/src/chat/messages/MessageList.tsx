// The messages of a chat, the newest at the end. A long chat opens with its newest messages; the others come
// as one scrolls up.

import { ArrowDown, TriangleAlert } from 'lucide-react';
import { useEffect, useMemo, useRef, useState, type ReactNode, type RefObject } from 'react';
import { useTranslation } from 'react-i18next';
import type { SummarizedChat } from '../context/SummaryDialog';
import { useUnsent } from 'fermata-chat/react';
import { SummaryLine } from '../context/SummaryLine';
import { RetriesProvider } from '../calls/Retries';
import { copyOf, isParked, isPlanContinued, isQuiet, type Message } from '../record/message';
import { useErrorWords } from '../ui/errorWords';
import { Sign } from '../ui/Sign';
import { Announcer } from './Announcer';
import { Contained } from './Contained';
import { MessageView, type MessageActions } from './MessageView';
import { useKeptPlace } from './useKeptPlace';
import { useStickToEnd } from './useStickToEnd';

/** The number of messages shown at first, and added each time. */
export const PAGE = 60;

interface Props {
  messages: readonly Message[];
  status: string;
  /** The error of the last request. */
  error: Error | undefined;
  chat: SummarizedChat;
  actions: MessageActions;
  /** The message that the person writes again. */
  edited: string | undefined;
  onTryAgain: () => void;
  /** The placeholder if there is no message yet. */
  children: ReactNode;
}

export function MessageList(props: Props) {
  const { messages: given, status, error, chat, actions, edited, onTryAgain, children } = props;
  const { t } = useTranslation();
  // Only the last one can grow; the others must stay the same objects, or every message would be rendered
  // again.
  const messages = useMemo(() => [...given.slice(0, -1), ...given.slice(-1).map(copyOf)], [given]);
  const { scroller, content, isAtEnd, toEnd } = useStickToEnd(messages.length > 0);
  const { shown, earlier, showEarlier } = useNewest(messages, scroller);
  const isGrowing = status === 'streaming';
  const last = messages.at(-1);
  const isUnsent = useUnsent(chat)?.isWaiting === true;

  // A message of one's own is always worth seeing.
  const lastOfUser = last?.role === 'user' ? last.id : undefined;
  useEffect(() => {
    if (lastOfUser !== undefined) toEnd();
  }, [lastOfUser, toEnd]);

  return (
    <div className="relative min-h-0 flex-1">
      <div ref={scroller} className="h-full overflow-y-auto overscroll-contain [overflow-anchor:none]">
        <div ref={content} className="column flow-root pb-8">
          {messages.length === 0 && children}
          {earlier > 0 && <Earlier onReached={showEarlier} />}
          <SummaryLine chat={chat} after={messages.slice(0, earlier)} />
          <RetriesProvider messages={messages}>
            <div role="log" aria-label={t('messages.label')} aria-live="off">
              {shown.map((message) => (
                <Contained
                  key={message.id}
                  attempt={message}
                  instead={<p className="my-6 text-sm text-bad">{t('messages.unshowable')}</p>}
                >
                  <MessageView
                    message={message}
                    chat={chat}
                    actions={actions}
                    isLast={message === last}
                    isGrowing={isGrowing && message === last}
                    isEdited={message.id === edited}
                    isPlanContinued={isPlanContinued(message, messages)}
                  />
                  <SummaryLine chat={chat} after={[message]} />
                </Contained>
              ))}
            </div>
          </RetriesProvider>
          {isQuiet(messages, status) && !isUnsent && <Working />}
          {error !== undefined && <Failure error={error} onTryAgain={onTryAgain} />}
        </div>
      </div>
      <Announcer isUnderWay={isGrowing || isParked(last)} />
      {!isAtEnd && messages.length > 0 && (
        <button
          type="button"
          onClick={toEnd}
          className="button absolute bottom-3 left-1/2 -translate-x-1/2 rounded-full shadow-md"
        >
          <ArrowDown className="size-4" aria-hidden="true" />
          {t('messages.newest')}
        </button>
      )}
    </div>
  );
}

/** The newest messages, and what it takes to see earlier ones without losing one's place. */
function useNewest(messages: readonly Message[], scroller: RefObject<HTMLDivElement | null>) {
  const [first, setFirst] = useState<number>();
  if (first === undefined && messages.length > 0) setFirst(Math.max(0, messages.length - PAGE));
  const from = Math.min(first ?? 0, Math.max(0, messages.length - PAGE));
  const keepPlace = useKeptPlace(scroller, from);
  const showEarlier = () => {
    keepPlace();
    setFirst(Math.max(0, from - PAGE));
  };

  return { shown: messages.slice(from), earlier: from, showEarlier };
}

/** Asks for earlier messages when it comes into view, or is pressed. */
export function Earlier({ onReached }: { onReached: () => void }) {
  const { t } = useTranslation();
  const mark = useRef<HTMLDivElement>(null);
  const latest = useRef(onReached);
  useEffect(() => {
    latest.current = onReached;
  });
  useEffect(() => {
    if (!mark.current) return;
    const observer = new IntersectionObserver(([entry]) => {
      if (entry?.isIntersecting) latest.current();
    });
    observer.observe(mark.current);
    return () => {
      observer.disconnect();
    };
  }, []);
  return (
    <div ref={mark} className="flex justify-center py-4">
      <button type="button" className="button" onClick={onReached}>
        {t('messages.earlier')}
      </button>
    </div>
  );
}

export function Working() {
  const { t } = useTranslation();
  return (
    <p role="status" className="my-6 flex items-center gap-2 text-sm text-muted">
      <Sign className="size-5 animate-breathe text-accent" />
      {t('messages.working')}
    </p>
  );
}

export function Failure({ error, onTryAgain }: { error: Error; onTryAgain: () => void }) {
  const { t } = useTranslation();
  const words = useErrorWords()(error);
  return (
    <div role="alert" className="my-6 flex items-start gap-3 rounded-card bg-bad-soft px-4 py-3 text-bad">
      <TriangleAlert className="mt-0.5 size-4 shrink-0" aria-hidden="true" />
      <p className="min-w-0 flex-1 wrap-anywhere">{words === '' ? t('messages.failed') : words}</p>
      <button type="button" className="button" onClick={onTryAgain}>
        {t('again')}
      </button>
    </div>
  );
}
