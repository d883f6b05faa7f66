// A point in time, in the reader's words: the hour for today, the day for what is older.

import { useTranslation } from 'react-i18next';
import { localeOf } from '../../i18n/language';

export const isToday = (time: string): boolean => new Date(time).toDateString() === new Date().toDateString();

export const formatTime = (time: string, language: string): string =>
  new Date(time).toLocaleTimeString(localeOf(language), { hour: '2-digit', minute: '2-digit' });

export function formatDay(time: string, language: string): string {
  const date = new Date(time);
  const isThisYear = date.getFullYear() === new Date().getFullYear();
  return date.toLocaleDateString(localeOf(language), {
    day: 'numeric',
    month: 'short',
    ...(!isThisYear && { year: 'numeric' }),
  });
}

export const formatWhen = (time: string, language: string): string =>
  isToday(time) ? formatTime(time, language) : formatDay(time, language);

export function When({ time }: { time: string }) {
  const { i18n } = useTranslation();
  return (
    <time dateTime={time} title={new Date(time).toLocaleString(localeOf(i18n.language))}>
      {formatWhen(time, i18n.language)}
    </time>
  );
}
