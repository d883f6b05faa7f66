// One answer for several approvals: each is shown as it is sent, before anything is sent. What the server says of each is shown beside it.

import { useId, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { FermataError, type Approval, type Vote } from 'fermata-chat';
import { inOneLine } from '../chat/text/visible';
import { Button } from '../chat/ui/Button';
import { Dialog } from '../chat/ui/Dialog';
import { useErrorWords } from '../chat/ui/errorWords';
import { FIELD } from '../chat/ui/field';
import { WholeInput } from '../chat/values/seen';
import { LongText } from '../chat/values/ToolValue';
import { useOutcomeWords, useRequestWords } from './words';

export interface AnswerAllProps {
  approvals: readonly Approval[];
  approved: boolean;
  me: string | undefined;
  onVote: (approval: Approval, vote: Vote) => Promise<void>;
  onClose: () => void;
}

/** What became of one answer. */
type Result = { phase: 'sending' | 'counted' } | { phase: 'refused'; error: unknown };

/** Nothing of a long input is left out. */
const WHOLE = { isWhole: true, showAll: () => undefined };

export function AnswerAll({ approvals, approved, me, onVote, onClose }: AnswerAllProps) {
  const { t } = useTranslation('inbox');
  // What is listed is what is sent, whatever changes meanwhile.
  const [listed] = useState(approvals);
  const [results, setResults] = useState<ReadonlyMap<string, Result>>(new Map());
  const [isBusy, setBusy] = useState(false);
  const [reason, setReason] = useState('');
  const field = useId();
  const left = listed.filter(({ id }) => isOpen(results.get(id)));
  const send = async () => {
    const words = reason.trim();
    setBusy(true);
    for (const approval of left) {
      const note = (result: Result) => {
        setResults((known) => new Map([...known, [approval.id, result]]));
      };
      note({ phase: 'sending' });
      try {
        await onVote(approval, { approved, ...(words !== '' && { reason: words }) });
        note({ phase: 'counted' });
      } catch (error) {
        note({ phase: 'refused', error });
      }
    }
    setBusy(false);
  };
  const way = approved ? 'approve' : 'deny';
  return (
    <Dialog
      size="page"
      title={t(`all.${way}`, { count: listed.length })}
      onClose={() => {
        if (!isBusy) onClose();
      }}
    >
      <form
        className="space-y-4"
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
      >
        <p className="text-sm text-muted">{t('all.text')}</p>
        <ul className="space-y-3">
          {listed.map((approval) => (
            <li key={approval.id} className="rounded-card border border-field p-3">
              <Listed {...{ approval, approved, me }} result={results.get(approval.id)} />
            </li>
          ))}
        </ul>
        {!approved && left.length > 0 && (
          <div className="space-y-1">
            <label htmlFor={field} className="text-sm font-medium">
              {t('all.reason')}
            </label>
            <input
              dir="auto"
              id={field}
              value={reason}
              onChange={(event) => {
                setReason(event.target.value);
              }}
              className={FIELD}
            />
          </div>
        )}
        <div className="flex flex-wrap justify-end gap-2">
          <Button disabled={isBusy} onClick={onClose}>
            {t(left.length === 0 ? 'all.close' : 'all.cancel')}
          </Button>
          {(left.length > 0 || isBusy) && (
            <Button type="submit" tone={approved ? 'primary' : 'danger'} isBusy={isBusy}>
              {t(approved ? 'all.doApprove' : 'all.doDeny', { count: left.length })}
            </Button>
          )}
        </div>
      </form>
    </Dialog>
  );
}

/** The codes of a refusal that another attempt does not change. */
const FINAL = ['already_answered', 'changed', 'not_yours_to_decide', 'not_found'];

function isOpen(result: Result | undefined): boolean {
  if (result?.phase !== 'refused') return result?.phase !== 'counted';
  return !(result.error instanceof FermataError && FINAL.includes(result.error.code));
}

/** An approval as it is sent: the input as the JSON text that runs. */
function Listed({
  approval,
  approved,
  me,
  result,
}: Pick<AnswerAllProps, 'approved' | 'me'> & { approval: Approval; result: Result | undefined }) {
  const { t } = useTranslation('inbox');
  const requestWords = useRequestWords(me);
  const { tool, server, inputText } = approval;
  return (
    <div className="space-y-1">
      <p className="flex flex-wrap items-baseline gap-x-2 text-sm">
        <span className="font-mono font-medium wrap-anywhere">{inOneLine(tool)}</span>
        {server !== null && (
          <span className="text-xs text-muted wrap-anywhere">
            {t('who.server_of_mcp', { ns: 'cards', server: inOneLine(server) })}
          </span>
        )}
        <span className="text-xs text-muted wrap-anywhere">{requestWords(approval)}</span>
      </p>
      <div className="rounded-lg bg-sunken px-3 py-2">
        <WholeInput value={WHOLE}>
          <LongText text={inputText} isCode />
        </WholeInput>
      </div>
      <ResultWords {...{ approved, me, result }} />
    </div>
  );
}

function ResultWords({
  approved,
  me,
  result,
}: Pick<AnswerAllProps, 'approved' | 'me'> & { result: Result | undefined }) {
  const { t } = useTranslation('inbox');
  const errorWords = useErrorWords();
  const outcomeWords = useOutcomeWords(me);
  if (result === undefined) return null;
  switch (result.phase) {
    case 'sending':
      return <p className="text-sm text-muted">{t('all.sending')}</p>;
    case 'counted':
      return (
        <p role="status" className="text-sm font-medium text-good">
          {t(approved ? 'all.approved' : 'all.denied')}
        </p>
      );
    case 'refused': {
      const { error } = result;
      const now = error instanceof FermataError ? error.approval : undefined;
      const isChanged = error instanceof FermataError && error.code === 'changed';
      return (
        <p role="alert" className="text-sm text-bad wrap-anywhere">
          {isChanged ? t('all.changed') : ((now && outcomeWords(now)) ?? errorWords(error))}
        </p>
      );
    }
    default:
      return result satisfies never;
  }
}
