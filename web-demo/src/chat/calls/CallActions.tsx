// What a person can do about a call besides deciding on it: cancel it while it runs, and try it again once it has failed.

import { useTranslation } from 'react-i18next';
import { FermataError } from 'fermata-chat';
import type { CallState, CardChat } from '../record/toolState';
import { useRetriedAs } from './Retries';
import { AnswerError } from '../ui/AnswerError';
import { Button } from '../ui/Button';
import { useAnswer } from '../ui/useAnswer';

interface Props {
  chat: CardChat;
  toolCallId: string;
  name: string;
  state: CallState;
}

export function CallActions({ chat, toolCallId, name, state }: Props) {
  const { t } = useTranslation('runs');
  const retriedAs = useRetriedAs(toolCallId);
  if (state.name === 'running')
    return (
      <Action key="cancel" label={t('cancelLabel', { name })} onAct={() => chat.cancelCall(toolCallId)}>
        {t('cancel')}
      </Action>
    );
  if (state.name === 'failed' && retriedAs !== undefined)
    return (
      <p className="flex flex-wrap items-center gap-2 text-sm text-muted">
        {t('retriedAs')}
        <button
          type="button"
          className="button"
          onClick={() => {
            document.querySelector<HTMLElement>(`[data-call="${CSS.escape(retriedAs)}"]`)?.focus();
          }}
        >
          {t('showRetry')}
        </button>
      </p>
    );
  if (state.name === 'failed')
    return (
      <Action key="retry" label={t('retryLabel', { name })} onAct={() => chat.retryCall(toolCallId)}>
        {t('retry')}
      </Action>
    );
  return null;
}

const REFUSALS = ['not_running', 'not_failed', 'already_retried', 'run_open'] as const;

function Action({ label, onAct, children }: { label: string; onAct: () => Promise<void>; children: string }) {
  const { t } = useTranslation('runs');
  const { give, isBusy, isOver, error } = useAnswer();
  const code = error instanceof FermataError ? error.code : undefined;
  const refusal = REFUSALS.find((known) => known === code);
  return (
    <div className="flex flex-wrap items-center gap-2">
      <Button aria-label={label} isBusy={isBusy} disabled={isOver} onClick={() => void give('act', onAct)}>
        {children}
      </Button>
      {refusal === undefined ? (
        <AnswerError error={error} />
      ) : (
        <p role="alert" className="text-sm text-muted">
          {t(`refused.${refusal}`)}
        </p>
      )}
    </div>
  );
}
