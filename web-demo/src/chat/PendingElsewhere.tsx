// What waits for the person in other chats, each a link to where it waits.

import { Hourglass } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import { useCell } from './cell';
import { chatUrl, showChat } from './chatId';
import { isPlainClick } from './ChatRow';
import { waiting } from './chats';
import { inOneLine } from './visible';
import { formatWhen } from './When';

export function PendingElsewhere({ chatId, onShow }: { chatId: string; onShow: () => void }) {
  const { t, i18n } = useTranslation();
  const elsewhere = useCell(waiting).filter(({ chat }) => chat.id !== chatId);
  if (elsewhere.length === 0) return null;
  return (
    <section aria-label={t('elsewhere.label')} className="mb-4 border-l-2 border-wait pl-3">
      <h2 className="mb-1 flex items-center gap-1.5 text-xs font-medium text-wait">
        <Hourglass className="size-3.5" aria-hidden="true" />
        {t('elsewhere.label')}
      </h2>
      <ul>
        {elsewhere.flatMap(({ chat, pending }) =>
          pending.map((one) => (
            <li key={one.id}>
              <a
                href={chatUrl(chat.id)}
                className="block rounded-lg px-2 py-1.5 hover:bg-raised"
                onClick={(event) => {
                  if (!isPlainClick(event)) return;
                  event.preventDefault();
                  showChat(chat.id);
                  onShow();
                }}
              >
                <span className="block truncate text-sm">
                  <span className="font-mono text-[0.8125rem]">{one.tool}</span> {one.server === undefined ? t(`elsewhere.${one.kind}`) : t('elsewhere.serverAsks', { server: one.server })}
                </span>
                {one.reason !== undefined && <span className="block truncate text-xs">{inOneLine(one.reason)}</span>}
                <span className="block truncate text-xs text-muted">
                  {chat.title ?? t('chats.untitled')} · {t('elsewhere.since', { time: formatWhen(one.since, i18n.language) })}
                </span>
              </a>
            </li>
          )),
        )}
      </ul>
    </section>
  );
}
