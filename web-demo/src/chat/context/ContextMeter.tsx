// How full the model's window is, beside where one writes. It is shown when that begins to matter.

import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useContextUsage, type FermataChat } from 'fermata-chat/react';
import { SummaryDialog } from './SummaryDialog';

/** The share of the window from which on the meter is shown, in percent. */
const SHOWN_FROM = 60;

export function ContextMeter({ chat }: { chat: FermataChat }) {
  const { t } = useTranslation('context');
  const [isOpen, setOpen] = useState(false);
  const usage = useContextUsage(chat);
  const percent = usage?.window === undefined ? 0 : Math.round((100 * usage.inputTokens) / usage.window);
  const isShown = percent >= SHOWN_FROM;
  return (
    <>
      {isShown && (
        <div className="flex items-center gap-1.5">
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
          <button
            type="button"
            aria-haspopup="dialog"
            aria-label={t('meterLabel', { percent })}
            className={
              'h-8 shrink-0 cursor-pointer rounded-lg px-1.5 text-xs whitespace-nowrap text-muted hover:bg-sunken hover:text-ink ' +
              'pointer-coarse:h-10'
            }
            onClick={() => {
              setOpen(true);
            }}
          >
            {percent} %
          </button>
        </div>
      )}
      {/* It stays when the meter goes, which it does once the chat is compacted. */}
      {isOpen && (
        <SummaryDialog
          chat={chat}
          onClose={() => {
            setOpen(false);
          }}
        />
      )}
    </>
  );
}
