// When something was, and what became of an approval, in words.

import { useTranslation } from 'react-i18next';
import type { Approval } from 'fermata-chat';
import { inOneLine } from '../chat/text/visible';
import { localeOf } from '../i18n/language';

/** Says when something was: `at 12:03`, `on 2 Mar at 12:03`. */
export function useWhenWords(): (time: string) => string {
  const { t, i18n } = useTranslation('inbox');
  const locale = localeOf(i18n.language);
  return (text) => {
    const date = new Date(text);
    const time = date.toLocaleTimeString(locale, { hour: '2-digit', minute: '2-digit' });
    if (date.toDateString() === new Date().toDateString()) return t('today', { time });
    const isThisYear = date.getFullYear() === new Date().getFullYear();
    const day = date.toLocaleDateString(locale, {
      day: 'numeric',
      month: 'short',
      ...(!isThisYear && { year: 'numeric' }),
    });
    return t('earlier', { time, day });
  };
}

/** Says what became of an approval: `Denied by bob at 12:03`; `undefined` if it waits. */
export function useOutcomeWords(me: string | undefined): (approval: Approval) => string | undefined {
  const { t } = useTranslation('inbox');
  const whenWords = useWhenWords();
  return ({ state, settled }) => {
    if (settled === null) return undefined;
    const when = whenWords(settled.at);
    const who =
      settled.by === null || settled.by !== me ? settled.by && inOneLine(settled.by) : t('outcome.you');
    switch (state) {
      case 'waiting':
        return undefined;
      case 'approved':
        return who === null ? t('outcome.approvedByNobody', { when }) : t('outcome.approved', { who, when });
      case 'denied':
        return who === null ? t('outcome.deniedByNobody', { when }) : t('outcome.denied', { who, when });
      case 'expired':
      case 'cancelled':
        return t(`outcome.${state}`, { when });
      default:
        return state satisfies never;
    }
  };
}
