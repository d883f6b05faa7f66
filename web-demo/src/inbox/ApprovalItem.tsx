// One approval of a list: the card of its call, with the requester and the outcome.

import { useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { FermataError, type Approval, type Vote } from 'fermata-chat';
import { ToolCard } from '../chat/calls/ToolCard';
import { chatUrl } from '../chat/server/chatId';
import { useTools } from '../chat/server/useTools';
import { inOneLine } from '../chat/text/visible';
import { chatOf, endOf, messageOf, partOf } from './asCall';
import { useOutcomeWords, useRequestWords } from './words';

export interface ApprovalItemProps {
  approval: Approval;
  me: string | undefined;
  waitsForMe?: boolean;
  /** `true` if it does not exist any more, or the person may not see it any more. */
  isGone?: boolean;
  /** Votes; absent in the list of earlier decisions. */
  onVote?: (approval: Approval, vote: Vote) => Promise<void>;
}

/** The reason why the last vote did not count, if the card itself does not show it. */
type Refusal = 'late' | 'notYours' | 'toolChanged';

export function ApprovalItem({
  approval,
  me,
  waitsForMe = false,
  isGone = false,
  onVote,
}: ApprovalItemProps) {
  const { tools } = useTools();
  const [refusal, setRefusal] = useState<Refusal>();
  const end = endOf(approval, isGone);
  const isOver = end !== undefined;
  const part = useMemo(() => partOf(approval, isOver), [approval, isOver]);
  const chat = useMemo(
    () =>
      chatOf(approval, waitsForMe, async (vote) => {
        setRefusal(undefined);
        try {
          await onVote?.(approval, vote);
        } catch (error) {
          setRefusal(refusalOf(error));
          throw error;
        }
      }),
    [approval, waitsForMe, onVote],
  );
  return (
    <ToolCard part={part} message={messageOf(part)} chat={chat} tools={tools} state={end} me={me}>
      <Facts {...{ approval, me, isGone, refusal }} />
    </ToolCard>
  );
}

function refusalOf(error: unknown): Refusal | undefined {
  if (!(error instanceof FermataError)) return undefined;
  switch (error.code) {
    case 'already_answered':
      return 'late';
    case 'not_yours_to_decide':
      return 'notYours';
    case 'tool_changed':
      return 'toolChanged';
    default:
      return undefined;
  }
}

function Facts({
  approval,
  me,
  isGone,
  refusal,
}: Pick<ApprovalItemProps, 'approval' | 'me'> & { isGone: boolean; refusal: Refusal | undefined }) {
  const { t } = useTranslation('inbox');
  const requestWords = useRequestWords(me);
  const outcome = useOutcomeWords(me)(approval);
  const { chat } = approval;
  return (
    <div className="space-y-1 text-sm">
      {outcome !== undefined && (
        <p role={refusal === 'late' ? 'alert' : undefined} data-outcome className="font-medium wrap-anywhere">
          {outcome}
          {refusal === 'late' && ` · ${t('late')}`}
        </p>
      )}
      {refusal === 'notYours' && (
        <p role="alert" className="text-bad">
          {t('notYours')}
        </p>
      )}
      {refusal === 'toolChanged' && approval.state !== 'waiting' && (
        <p role="alert" className="text-bad">
          {t('errors.tool_changed', { ns: 'cards' })}
        </p>
      )}
      {isGone && (
        <p role="alert" className="text-muted">
          {t('gone')}
        </p>
      )}
      <p className="text-muted wrap-anywhere">
        {requestWords(approval)}
        {chat !== undefined && (
          <>
            {' · '}
            <a href={chatUrl(chat.id, '/')} className="text-accent underline underline-offset-2">
              {chat.title === null ? t('inChat') : <bdi>{inOneLine(chat.title)}</bdi>}
            </a>
          </>
        )}
      </p>
    </div>
  );
}
