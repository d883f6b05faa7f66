// The way to the summary, beside where one writes. When that begins to matter, it says how full the model's window is.

import { FoldVertical } from 'lucide-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useContextUsage } from 'fermata-chat/react';
import { SummaryDialog, type SummarizedChat } from './SummaryDialog';

/** The smallest share of the window that is shown, in percent. */
const SHOWN_FROM = 60;

export function ContextButton({ chat }: { chat: SummarizedChat }) {
  const { t } = useTranslation('context');
  const [isOpen, setOpen] = useState(false);
  const usage = useContextUsage(chat);
  const percent = usage?.window === undefined ? 0 : Math.round((100 * usage.inputTokens) / usage.window);
  const isMeasured = percent >= SHOWN_FROM;
  const label = isMeasured ? t('meterLabel', { percent }) : t('open');
  return (
    <div className="flex shrink-0 items-center gap-1.5">
      {isMeasured && (
        <span
          role="meter"
          aria-label={t('meter')}
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={Math.min(percent, 100)}
          className="h-1.5 w-10 overflow-hidden rounded-full bg-sunken"
        >
          <span
            className={`block h-full ${percent >= 85 ? 'bg-bad' : 'bg-accent'}`}
            style={{ width: `${Math.min(percent, 100)}%` }}
          />
        </span>
      )}
      <button
        type="button"
        aria-haspopup="dialog"
        aria-label={label}
        title={label}
        className={
          'inline-flex h-8 cursor-pointer items-center justify-center gap-1.5 rounded-lg px-2 text-sm ' +
          'whitespace-nowrap text-muted transition-colors hover:bg-sunken hover:text-ink ' +
          'pointer-coarse:h-11 pointer-coarse:min-w-11'
        }
        onClick={() => {
          setOpen(true);
        }}
      >
        {isMeasured ? (
          `${percent} %`
        ) : (
          <>
            <FoldVertical className="size-4" aria-hidden="true" />
            <span className="max-sm:sr-only">{t('title')}</span>
          </>
        )}
      </button>
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
