// Asks what a short reply means while calls wait for a decision, before it cancels them as a message.

import { getToolName } from 'ai';
import type { FermataChat } from 'fermata-chat';
import { useRunStatus } from 'fermata-chat/react';
import { useEffect, useRef, useState, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { decideAll } from '../calls/Gate';
import type { Message } from '../record/message';
import { isUnclearReply } from '../record/reply';
import { asksPerson, lastStep } from '../record/toolState';
import { inOneLine } from '../text/visible';
import { AnswerError } from '../ui/AnswerError';
import { Button } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { useAnswer } from '../ui/useAnswer';
import { useUnseen } from '../values/seen';
import { focusComposer } from '../ui/focusComposer';

/** A call that waits for a decision. */
interface WaitingCall {
  id: string;
  tool: string;
  input: unknown;
}

interface Options {
  /** `undefined` until there is one. */
  chat: FermataChat | undefined;
  messages: readonly Message[];
  /** Sends what is written as a message. */
  onSend: () => void;
  /** The reply was an answer, so it is not needed any more. */
  onAnswered: () => void;
}

interface ReplyCheck {
  /** Asks about a reply if its meaning is unclear, and returns `true` if it does. */
  asks: (text: string) => boolean;
  dialog: ReactNode;
}

export function useReplyCheck({ chat, messages, onSend, onAnswered }: Options): ReplyCheck {
  const [text, setText] = useState<string>();
  const run = useRunStatus(chat ?? NO_CHAT);
  const waiting = waitingIn(messages.at(-1), chat?.callStatus);
  const close = () => {
    setText(undefined);
    focusComposer();
  };
  return {
    asks: (text) => {
      // A message is the answer to a question of the assistant, and cancels nothing.
      const asks = waiting.length > 0 && run?.takesReply !== true && isUnclearReply(text, run?.confirmWords);
      if (asks) setText(text.trim());
      return asks;
    },
    dialog: chat !== undefined && text !== undefined && waiting.length > 0 && (
      <ReplyDialog
        {...{ chat, text, waiting }}
        onClose={close}
        onSend={() => {
          close();
          onSend();
        }}
        onAnswered={() => {
          close();
          onAnswered();
        }}
      />
    ),
  };
}

const NO_CHAT: Pick<FermataChat, 'runStatus'> = {
  runStatus: { get: () => undefined, subscribe: () => () => undefined },
};

/** The calls that the person may decide about. */
function waitingIn(
  message: Message | undefined,
  status: FermataChat['callStatus'] | undefined,
): WaitingCall[] {
  if (message?.role !== 'assistant') return [];
  return lastStep(message).flatMap((part) =>
    asksPerson(part, status?.(part.toolCallId))
      ? [{ id: part.approval.id, tool: getToolName(part), input: part.input }]
      : [],
  );
}

interface Props {
  chat: FermataChat;
  text: string;
  waiting: WaitingCall[];
  onClose: () => void;
  onSend: () => void;
  onAnswered: () => void;
}

function ReplyDialog({ chat, text, waiting, onClose, onSend, onAnswered }: Props) {
  const { t } = useTranslation('runs');
  const { give, which, isBusy, error } = useAnswer();
  const isUnseen = useUnseen(waiting);
  const quote = useRef<HTMLQuoteElement>(null);
  // The key that sent the reply must not press a button of the dialog when it is held or pressed again.
  useEffect(() => {
    quote.current?.focus();
  }, []);
  const answer = async (way: 'approve' | 'deny') => {
    const isApproved = way === 'approve';
    const taken = await give(way, () => decideAll(chat, waiting, isApproved, isApproved ? undefined : text));
    if (taken === 'yes') onAnswered();
  };
  const state = (way: string) => ({ isBusy: isBusy && which === way, disabled: isBusy && which !== way });
  const tools = [...new Set(waiting.map(({ tool }) => inOneLine(tool)))].join(', ');
  return (
    <Dialog title={t('reply.title')} onClose={onClose}>
      <blockquote
        ref={quote}
        dir="auto"
        tabIndex={-1}
        className="my-2 border-l-2 border-line pl-3 wrap-anywhere outline-none"
      >
        {text}
      </blockquote>
      <p className="text-sm text-muted wrap-anywhere">{t('reply.text', { count: waiting.length, tools })}</p>
      {isUnseen && <p className="mt-2 text-sm text-wait">{t('reply.unseen')}</p>}
      <AnswerError error={error} />
      <div className="mt-5 flex flex-wrap gap-2">
        <Button
          tone="primary"
          isBusy={state('approve').isBusy}
          disabled={state('approve').disabled || isUnseen}
          onClick={() => void answer('approve')}
        >
          {t('reply.approve')}
        </Button>
        <Button tone="danger" {...state('deny')} onClick={() => void answer('deny')}>
          {t('reply.deny')}
        </Button>
        <Button disabled={isBusy} onClick={onSend}>
          {t('reply.send')}
        </Button>
      </div>
    </Dialog>
  );
}
