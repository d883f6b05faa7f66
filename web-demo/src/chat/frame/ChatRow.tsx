// One chat in a list of either page: a link to it, what waits in it, and a way to delete it.
//
// A row is one stop of the Tab key. The Delete key deletes the chat whose link has the focus, and the button for it shows.

import { Trash2 } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import { chatUrl, showChat } from '../server/chatId';
import type { ListedChat } from '../server/chats';
import { IconButton } from '../ui/IconButton';
import { isPlainClick } from '../ui/keys';
import { When } from '../ui/When';

/** Of the element around a row. */
export const rowClass = (isShown: boolean) =>
  `group/chat flex items-center rounded-lg ${isShown ? 'bg-raised shadow-xs' : 'hover:bg-raised/60'}`;

interface ChatRowProps {
  chat: ListedChat;
  title: string;
  isShown: boolean;
  onShow: () => void;
  onDelete: (chat: ListedChat) => void;
}

export function ChatRow({ chat, title, isShown, onShow, onDelete }: ChatRowProps) {
  const { t } = useTranslation();
  const pending = chat.pending ?? 0;
  return (
    <>
      <a
        href={chatUrl(chat.id)}
        aria-current={isShown ? 'page' : undefined}
        aria-keyshortcuts="Delete"
        className="min-w-0 flex-1 rounded-lg px-2.5 py-2"
        onKeyDown={(event) => {
          // The key that a Mac calls Delete is another one.
          if (event.key !== 'Delete' && event.key !== 'Backspace') return;
          event.preventDefault();
          onDelete(chat);
        }}
        onClick={(event) => {
          if (!isPlainClick(event)) return;
          event.preventDefault();
          showChat(chat.id);
          onShow();
        }}
      >
        <span dir="auto" className="block truncate text-left text-sm">
          {title}
        </span>
        <span className="flex items-center gap-2 text-xs text-muted">
          {chat.updatedAt !== '' && <When time={chat.updatedAt} />}
          <State chat={chat} />
        </span>
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
        tabIndex={-1}
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

/** A chat waits as long as somebody has to answer in it, whether or not a run is open; the stream of a run that waits ends after a while. */
function State({ chat: { pending = 0, open = false } }: { chat: ListedChat }) {
  const { t } = useTranslation();
  if (pending === 0 && !open) return null;
  const isWaiting = pending > 0;
  return (
    <span className="inline-flex items-center gap-1">
      <span
        className={`size-1.5 rounded-full ${isWaiting ? 'bg-wait' : 'animate-breathe bg-accent'}`}
        aria-hidden="true"
      />
      {t(isWaiting ? 'chats.held' : 'chats.open')}
    </span>
  );
}
