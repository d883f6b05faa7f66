// The foot of a step with several calls if some wait for a decision: how many are decided, what waits
// for what, and all at once.

import { useTranslation } from 'react-i18next';
import { useState } from 'react';
import type { UIMessage } from 'ai';
import type { CallStatus, FermataChat, RunStatus } from 'fermata-chat';
import { useRunStatus } from 'fermata-chat/react';
import { asksPerson, lastStep, waitsForDecision, type AnyToolPart } from '../record/toolState';
import { useCallChanges } from '../runs/useCallChanges';
import { AnswerError } from '../ui/AnswerError';
import { Button } from '../ui/Button';
import { isAnsweredElsewhere, useAnswer } from '../ui/useAnswer';
import { useUnseen } from '../values/seen';

export interface GateProps {
  message: UIMessage;
  chat: FermataChat;
}

export interface GateCount {
  decided: number;
  total: number;
  /** The questions to the person: the ids of their approvals, and what they are about. Others decide about the rest. */
  waiting: { id: string; input: unknown }[];
  /** `true` if nothing runs before all are decided; `undefined` as long as the server has not said. */
  isClosed: boolean | undefined;
}

/** The progress of the decisions of a step; `undefined` if there is no gate worth a mention. */
export function countGate(
  step: readonly AnyToolPart[],
  run: RunStatus | undefined,
  status: (toolCallId: string) => CallStatus | undefined,
): GateCount | undefined {
  const waiting = step.flatMap((part) =>
    asksPerson(part, status(part.toolCallId)) ? [{ id: part.approval.id, input: part.input }] : [],
  );
  const decided = step.filter((part) => !waitsForDecision(part)).length;
  if (step.length < 2 || decided === step.length) return undefined;
  return { decided, total: step.length, waiting, isClosed: run && run.gateClosed === true };
}

/** The gate of a message's last step, where it has one. */
export function Gate({ message, chat }: GateProps) {
  useCallChanges(chat);
  const gate = countGate(lastStep(message), useRunStatus(chat), chat.callStatus);
  return gate && <OpenGate {...gate} chat={chat} />;
}

function OpenGate({ decided, total, waiting, isClosed, chat }: GateCount & Pick<GateProps, 'chat'>) {
  const { t } = useTranslation('cards');
  const [round, setRound] = useState(0);
  return (
    <div
      role="group"
      aria-label={t('gate.label')}
      className="flex flex-wrap items-center gap-x-4 gap-y-2 rounded-card border border-dashed border-field px-3 py-2"
    >
      <div className="min-w-48 flex-1">
        <div className="flex items-center gap-2">
          <Pips decided={decided} total={total} />
          <p role="status" className="text-sm font-medium">
            {t('gate.left', { count: total - decided })}
          </p>
        </div>
        {isClosed !== undefined && (
          <p className="text-xs leading-5 text-muted">{t(isClosed ? 'gate.closed' : 'gate.progressive')}</p>
        )}
      </div>
      {waiting.length > 1 && (
        <AllAtOnce
          key={round}
          {...{ waiting, chat }}
          onDone={() => {
            setRound(round + 1);
          }}
        />
      )}
    </div>
  );
}

/** More than this many are no picture any more. */
const MAX_PIPS = 12;

function Pips({ decided, total }: { decided: number; total: number }) {
  if (total > MAX_PIPS) return null;
  return (
    <span aria-hidden className="flex gap-1">
      {Array.from({ length: total }, (_, place) => (
        <span key={place} className={`size-2 rounded-full ${place < decided ? 'bg-good' : 'bg-wait'}`} />
      ))}
    </span>
  );
}

function AllAtOnce({
  waiting,
  chat,
  onDone,
}: {
  waiting: GateCount['waiting'];
  chat: FermataChat;
  onDone: () => void;
}) {
  const { t } = useTranslation('cards');
  const { give, which, isBusy, isOver, error } = useAnswer();
  const isUnseen = useUnseen(waiting);
  const decide = async (approved: boolean) => {
    const taken = await give(String(approved), () => decideAll(chat, waiting, approved));
    // Should a question be left, or come, it can be answered in the same way.
    if (taken === 'yes') onDone();
  };
  const button = (approved: boolean) => (
    <Button
      tone={approved ? 'plain' : 'danger'}
      isBusy={isBusy && which === String(approved)}
      disabled={(isBusy && which !== String(approved)) || isOver || (approved && isUnseen)}
      onClick={() => void decide(approved)}
    >
      {t(approved ? 'gate.approveAll' : 'gate.denyAll')}
    </Button>
  );
  return (
    <div className="flex flex-wrap gap-2">
      {button(true)}
      {button(false)}
      {isUnseen && <p className="basis-full text-xs text-wait">{t('gate.unseen')}</p>}
      <AnswerError error={error} />
    </div>
  );
}

/** Answers every question; one that was answered elsewhere meanwhile keeps none of the others waiting. */
export async function decideAll(
  chat: FermataChat,
  waiting: readonly { id: string }[],
  approved: boolean,
  reason?: string,
): Promise<void> {
  for (const { id } of waiting) {
    try {
      await chat.addToolApprovalResponse({ id, approved, ...(reason !== undefined && { reason }) });
    } catch (error) {
      if (!isAnsweredElsewhere(error)) throw error;
    }
  }
}
