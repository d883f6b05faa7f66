// The link to the inbox, with the number of approvals that wait there. If the server knows no users, the link is shown only while calls wait.

import { Inbox } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import { useCell } from '../../state/cell';
import { chatUrl } from '../server/chatId';
import { waitingForMe } from '../server/waitingForMe';

export function InboxLink({ chatId }: { chatId: string }) {
  const { t } = useTranslation('inbox');
  const waiting = useCell(waitingForMe);
  if (waiting === undefined || (waiting.count === 0 && !waiting.hasUsers)) return null;
  const { count, isMore } = waiting;
  const label = t('link', { count });
  return (
    <a
      href={chatUrl(chatId, '/inbox')}
      aria-label={label}
      title={label}
      className={
        'inline-flex h-8 min-w-8 shrink-0 items-center justify-center gap-1 rounded-lg px-1.5 text-muted ' +
        'transition-colors hover:bg-sunken hover:text-ink pointer-coarse:h-11 pointer-coarse:min-w-11'
      }
    >
      <Inbox className="size-4" aria-hidden="true" />
      {count > 0 && (
        <span className="rounded-full bg-wait-soft px-1.5 text-xs leading-5 font-medium text-wait tabular-nums">
          {count}
          {isMore && '+'}
        </span>
      )}
    </a>
  );
}
