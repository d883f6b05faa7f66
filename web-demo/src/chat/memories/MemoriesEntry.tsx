// The way to the memories, among the settings.

import { useTranslation } from 'react-i18next';
import { useCell } from '../../state/cell';
import { isMemoryUsed } from '../server/memoryChoice';
import { Setting } from '../ui/Setting';
import { hasMemory, isListShown } from './memories';

/** `onShow` is called when the list is opened. */
export function MemoriesEntry({ onShow }: { onShow: () => void }) {
  const { t } = useTranslation('memory');
  const isUsed = useCell(isMemoryUsed);
  if (!useCell(hasMemory)) return null;
  return (
    <Setting
      label={
        <>
          {t('page.title')}
          {!isUsed && (
            <span className="ml-2 rounded-full bg-wait-soft px-2 text-xs text-wait">{t('page.off')}</span>
          )}
        </>
      }
    >
      <button
        type="button"
        aria-haspopup="dialog"
        className="button"
        onClick={() => {
          onShow();
          isListShown.set(true);
        }}
      >
        {t('manage')}
      </button>
    </Setting>
  );
}
