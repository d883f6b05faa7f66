// The people who decide about a waiting call, and those who have approved it.

import { useTranslation } from 'react-i18next';
import type { ApprovalDecision } from 'fermata-chat';
import { inOneLine } from '../text/visible';

export interface DecidersProps {
  /** `undefined` if the page knows only that other people decide. */
  decision: ApprovalDecision | undefined;
  /** `true` if the person cannot do anything about the call. */
  isOthers: boolean;
  /** The name of the person, where it is known. */
  me?: string | undefined;
}

/** Shows nothing if the person alone decides. */
export function Deciders({ decision, isOthers, me }: DecidersProps) {
  const { t } = useTranslation('cards');
  const waits =
    decision === undefined || decision.by.length === 0
      ? t('deciders.waitsForOthers')
      : t('deciders.waits', {
          who: listOf(
            decision.by.map((by) => partyWords(by, t)),
            'or',
            t,
          ),
        });
  const votes = decision !== undefined && decision.quorum > 1 ? voteWords(decision, me, t) : undefined;
  if (!isOthers && votes === undefined) return null;
  return (
    <p data-deciders className="text-sm text-muted wrap-anywhere">
      {[isOthers && waits, votes].filter(Boolean).join(' · ')}
    </p>
  );
}

type Translate = ReturnType<typeof useTranslation<'cards'>>['t'];

function voteWords({ approvedBy, quorum }: ApprovalDecision, me: string | undefined, t: Translate): string {
  const count = approvedBy.length;
  if (count === 0) return t('deciders.count', { count, quorum });
  const names = approvedBy.map((name) => (name === me ? t('deciders.you') : inOneLine(name)));
  return t('deciders.votes', { count, quorum, who: listOf(names, 'and', t) });
}

/** A party that may decide, as a rule names it. */
function partyWords(by: string, t: Translate): string {
  const [kind = '', ...rest] = by.split(':');
  const name = inOneLine(rest.join(':'));
  if (kind === 'requester') return t('deciders.requester');
  return kind === 'channel' ? t('deciders.channel', { name }) : name;
}

/** `a, b or c`. */
function listOf(names: readonly string[], word: 'or' | 'and', t: Translate): string {
  const last = names.at(-1) ?? '';
  const some = names.slice(0, -1).join(t('deciders.comma'));
  return some === '' ? last : t(`deciders.${word}`, { some, last });
}
