// Durations and sizes in words, in the page's language.

import { useCallback } from 'react';
import { useTranslation } from 'react-i18next';

/** Says how long something took: `80 ms`, `1.4 s`, `2 min 5 s`. */
export function useDurationWords(): (milliseconds: number) => string {
  const { t } = useTranslation('cards');
  return useCallback(
    (milliseconds) => {
      if (milliseconds < 1000) return t('duration.milliseconds', { n: Math.round(milliseconds) });
      if (milliseconds < 59_950)
        return t('duration.seconds', { n: (milliseconds / 1000).toFixed(milliseconds < 9950 ? 1 : 0) });
      const seconds = Math.round(milliseconds / 1000);
      return t('duration.minutes', { minutes: Math.floor(seconds / 60), seconds: seconds % 60 });
    },
    [t],
  );
}

/** Says how large a file is. */
export function sizeWords(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB'];
  let size = bytes;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit] ?? ''}`;
}
