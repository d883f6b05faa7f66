// The way to the memories, at the foot of the chat list.

import { Brain } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import { useCell } from '../cell';
import { isMemoryUsed } from './choice';
import { hasMemory, isListShown } from './memories';

export function MemoriesEntry() {
  const { t } = useTranslation('memory');
  const isUsed = useCell(isMemoryUsed);
  if (!useCell(hasMemory)) return null;
  return (
    <button
      type="button"
      aria-haspopup="dialog"
      className={
        'inline-flex cursor-pointer items-center gap-1.5 self-start text-sm text-muted hover:text-ink ' +
        'pointer-coarse:min-h-11'
      }
      onClick={() => {
        isListShown.set(true);
      }}
    >
      <Brain className="size-4" aria-hidden="true" />
      <span className="underline underline-offset-4">{t('page.title')}</span>
      {!isUsed && <span className="rounded-full bg-wait-soft px-2 text-xs text-wait">{t('page.off')}</span>}
    </button>
  );
}
