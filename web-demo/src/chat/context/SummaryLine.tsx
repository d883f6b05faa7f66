// The line below the messages that a summary replaces for the model, and the reason for a summary.

import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useSummary, type Compaction } from 'fermata-chat/react';
import { SummaryDialog, type SummarizedChat } from './SummaryDialog';

interface Props {
  chat: SummarizedChat;
  /** The messages that the line would stand after. */
  after: readonly { id: string }[];
}

/** The line after the last message that the summary covers. It opens the summary. */
export function SummaryLine({ chat, after }: Props) {
  const { t } = useTranslation('context');
  const [isOpen, setOpen] = useState(false);
  const summary = useSummary(chat);
  if (summary === undefined || !after.some(({ id }) => id === summary.upTo)) return null;
  return (
    <div className="my-6 flex items-center gap-3 text-sm text-muted">
      <span className="h-px flex-1 bg-line" />
      <button
        type="button"
        aria-haspopup="dialog"
        className="cursor-pointer underline underline-offset-4 hover:text-ink pointer-coarse:min-h-11"
        onClick={() => {
          setOpen(true);
        }}
      >
        {t('summarised', { count: summary.messages })}
      </button>
      <span className="h-px flex-1 bg-line" />
      {isOpen && (
        <SummaryDialog
          chat={chat}
          onClose={() => {
            setOpen(false);
          }}
        />
      )}
    </div>
  );
}

/**
 * The messages that a run has left out before a step, to stay within the model's window; `data` is that of a `data-compaction`. An
 * older record may still say `running` of a run that was stopped.
 */
export function CompactionLine({ data, isGrowing }: { data: unknown; isGrowing: boolean }) {
  const { t } = useTranslation('context');
  const { state, messages: count } = data as Compaction;
  const isRunning = state === 'running';
  if (isRunning && !isGrowing) return null;
  return (
    // What is done was announced when it began.
    <p role={isRunning ? 'status' : undefined} className="my-3 text-xs text-muted">
      {t(`compaction.${state}`, { count })}
    </p>
  );
}
