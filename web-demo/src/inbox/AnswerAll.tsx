// One answer for several approvals. The dialog lists the exact input of each before it sends anything, and shows the result for each.
//
// An approval is sent, or sent again, while it waits for the person with the input that is listed.

import { useId, useState, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { FermataError, type Approval, type UseInbox } from 'fermata-chat/react';
import { inOneLine } from '../chat/text/visible';
import { Button } from '../chat/ui/Button';
import { Dialog } from '../chat/ui/Dialog';
import { useErrorWords } from '../chat/ui/errorWords';
import { FIELD } from '../chat/ui/field';
import { WholeInput } from '../chat/values/seen';
import { LongText } from '../chat/values/ToolValue';
import { useOutcomeWords, useRequestWords } from './words';

export interface AnswerAllProps {
  /** The approvals as they were when the dialog was opened. */
  approvals: readonly Approval[];
  approved: boolean;
  inbox: UseInbox;
  /** The approvals of the inbox that wait for the person. */
  waiting: readonly Approval[];
  me: string | undefined;
  onClose: () => void;
}

/** The result of one answer. */
type Result = { phase: 'sending' | 'counted' } | { phase: 'refused'; error: unknown };

/** Long inputs are shown as a whole. */
const WHOLE = { isWhole: true, showAll: () => undefined };

export function AnswerAll({ approvals, approved, inbox, waiting, me, onClose }: AnswerAllProps) {
  const { t } = useTranslation('inbox');
  const [results, setResults] = useState<ReadonlyMap<string, Result>>(new Map());
  const [isBusy, setBusy] = useState(false);
  const [reason, setReason] = useState('');
  const field = useId();
  const left = approvals.filter(
    ({ id, inputHash }) =>
      results.get(id)?.phase !== 'counted' &&
      waiting.some((now) => now.id === id && now.inputHash === inputHash),
  );
  const send = async () => {
    const words = reason.trim();
    setBusy(true);
    for (const approval of left) {
      const note = (result: Result) => {
        setResults((known) => new Map([...known, [approval.id, result]]));
      };
      note({ phase: 'sending' });
      try {
        await inbox.vote(approval, { approved, ...(words !== '' && { reason: words }) });
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
      title={t(`all.${way}`, { count: approvals.length })}
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
          {approvals.map((approval) => (
            <li key={approval.id} className="rounded-card border border-field p-3">
              <Listed {...{ approval, me }}>
                <ResultWords
                  {...{ approval, approved, inbox, me }}
                  result={results.get(approval.id)}
                  isLeft={left.includes(approval)}
                />
              </Listed>
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

/** An approval as it is sent: the input as the JSON text that runs. */
function Listed({
  approval,
  me,
  children,
}: Pick<AnswerAllProps, 'me'> & { approval: Approval; children: ReactNode }) {
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
      {children}
    </div>
  );
}

type ResultWordsProps = Pick<AnswerAllProps, 'approved' | 'inbox' | 'me'> & {
  approval: Approval;
  result: Result | undefined;
  /** `true` if the approval is still to be sent. */
  isLeft: boolean;
};

function ResultWords({ approval, approved, inbox, me, result, isLeft }: ResultWordsProps) {
  const { t } = useTranslation('inbox');
  const errorWords = useErrorWords();
  const outcomeWords = useOutcomeWords(me);
  switch (result?.phase) {
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
      return <NotCounted>{(now && outcomeWords(now)) ?? errorWords(error)}</NotCounted>;
    }
    case undefined: {
      if (isLeft) return null;
      const now = inbox.approvals.find(({ id }) => id === approval.id);
      if (now === undefined || inbox.gone.has(approval.id)) return <NotCounted>{t('gone')}</NotCounted>;
      const isChanged = now.inputHash !== approval.inputHash;
      const why = t(isChanged ? 'errors.changed' : 'errors.not_yours_to_decide', { ns: 'cards' });
      return <NotCounted>{outcomeWords(now) ?? why}</NotCounted>;
    }
    default:
      return result satisfies never;
  }
}

function NotCounted({ children }: { children: string }) {
  return (
    <p role="alert" className="text-sm text-bad wrap-anywhere">
      {children}
    </p>
  );
}
