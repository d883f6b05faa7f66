// A point in time, in the reader's words: the hour for today, the day for what is older.

import { useTranslation } from 'react-i18next';
import { localeOf } from '../../i18n/language';

const isSameDay = (one: Date, other: Date) => one.toDateString() === other.toDateString();

export function formatWhen(time: string, language: string, now = new Date()): string {
  const date = new Date(time);
  const form: Intl.DateTimeFormatOptions = isSameDay(date, now)
    ? { hour: '2-digit', minute: '2-digit' }
    : {
        day: 'numeric',
        month: 'short',
        ...(date.getFullYear() !== now.getFullYear() && { year: 'numeric' }),
      };
  return new Intl.DateTimeFormat(localeOf(language), form).format(date);
}

export function When({ time }: { time: string }) {
  const { i18n } = useTranslation();
  return (
    <time dateTime={time} title={new Date(time).toLocaleString(localeOf(i18n.language))}>
      {formatWhen(time, i18n.language)}
    </time>
  );
}
