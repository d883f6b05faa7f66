// One chat in a list: a link to it, what waits in it, and a way to delete it. What stands below the title is
// the list's own.

import { Trash2 } from 'lucide-react';
import type { MouseEvent, ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { chatUrl, showChat } from './chatId';
import type { ListedChat } from './chats';
import { IconButton } from './IconButton';

/** Of the element around a row. */
export const rowClass = (isShown: boolean) =>
  `group/chat flex items-center rounded-lg ${isShown ? 'bg-raised shadow-xs' : 'hover:bg-raised/60'}`;

/** Whether a click is meant for this page, and not for a new tab. */
export const isPlainClick = (event: MouseEvent) =>
  event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;

interface ChatRowProps {
  chat: ListedChat;
  title: string;
  isShown: boolean;
  onShow: () => void;
  onDelete: (chat: ListedChat) => void;
  children: ReactNode;
}

export function ChatRow({ chat, title, isShown, onShow, onDelete, children }: ChatRowProps) {
  const { t } = useTranslation();
  const pending = chat.pending ?? 0;
  return (
    <>
      <a
        href={chatUrl(chat.id)}
        aria-current={isShown ? 'page' : undefined}
        className="min-w-0 flex-1 rounded-lg px-2.5 py-2"
        onClick={(event) => {
          if (!isPlainClick(event)) return;
          event.preventDefault();
          showChat(chat.id);
          onShow();
        }}
      >
        <span className="block truncate text-sm">{title}</span>
        {children}
      </a>
      {pending > 0 && (
        <span
          className="rounded-full bg-wait-soft px-2 py-0.5 text-xs font-medium text-wait"
          title={t('chats.pending', { count: pending })}
        >
          <span aria-hidden="true">{pending}</span>
          <span className="sr-only">{t('chats.pending', { count: pending })}</span>
        </span>
      )}
      <IconButton
        label={t('chats.delete', { title })}
        className={
          'opacity-0 group-focus-within/chat:opacity-100 group-hover/chat:opacity-100 ' +
          'pointer-coarse:opacity-100'
        }
        onClick={() => {
          onDelete(chat);
        }}
      >
        <Trash2 />
      </IconButton>
    </>
  );
}
