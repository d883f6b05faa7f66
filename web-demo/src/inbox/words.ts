// The request of an approval and its outcome, in words.

import { useTranslation } from 'react-i18next';
import type { Approval } from 'fermata-chat';
import { inOneLine } from '../chat/text/visible';
import { formatDay, formatTime, isToday } from '../chat/ui/When';

/** Returns a time in words: `at 12:03`, `on 2 Mar at 12:03`. */
function useWhenWords(): (time: string) => string {
  const { t, i18n } = useTranslation('inbox');
  const { language } = i18n;
  return (at) => {
    const time = formatTime(at, language);
    return isToday(at) ? t('today', { time }) : t('earlier', { time, day: formatDay(at, language) });
  };
}

/** Returns the requester and the time of expiry in words: `Requested by dave at 12:03 · expires at 14:03`. */
export function useRequestWords(me: string | undefined): (approval: Approval) => string {
  const { t } = useTranslation('inbox');
  const whenWords = useWhenWords();
  return ({ requestedBy, requestedAt, expiresAt, state }) => {
    const when = whenWords(requestedAt);
    const requested =
      requestedBy === me
        ? t('requestedByYou', { when })
        : t('requestedBy', { who: inOneLine(requestedBy), when });
    if (state !== 'waiting' || expiresAt === null) return requested;
    return `${requested} · ${t('expires', { when: whenWords(expiresAt) })}`;
  };
}

/** Returns the outcome in words: `Denied by bob at 12:03`; `undefined` while the approval waits. */
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
