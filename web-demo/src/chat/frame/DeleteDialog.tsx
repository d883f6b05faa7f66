// Asks before a chat is forgotten.

import { useState } from 'react';
import { flushSync } from 'react-dom';
import { useTranslation } from 'react-i18next';
import { chatUrl, showNewChat } from '../server/chatId';
import { chats, deleteChat, type ListedChat } from '../server/chats';
import { Dialog } from '../ui/Dialog';
import { useErrorWords } from '../ui/errorWords';

interface Props {
  chat: ListedChat;
  /** `true` if it is the one the page shows. */
  isShown: boolean;
  onDone: () => void;
}

export function DeleteDialog({ chat, isShown, onDone }: Props) {
  const { t } = useTranslation();
  const words = useErrorWords();
  const [error, setError] = useState<unknown>();
  const remove = async () => {
    const all = chats.value.chats;
    const place = all.findIndex(({ id }) => id === chat.id);
    const neighbour = all[place + 1] ?? all[place - 1];
    try {
      await deleteChat(chat.id);
    } catch (reason) {
      setError(reason);
      return;
    }
    // The dialog gives the focus back to a row that is gone.
    flushSync(onDone);
    if (isShown) showNewChat();
    else if (neighbour !== undefined)
      document.querySelector<HTMLElement>(`nav a[href="${chatUrl(neighbour.id)}"]`)?.focus();
  };
  return (
    <Dialog title={t('chats.deleteTitle')} onClose={onDone}>
      <p className="wrap-anywhere">{t('chats.deleteText', { title: chat.title ?? t('chats.untitled') })}</p>
      {error !== undefined && (
        <p role="alert" className="mt-3 text-bad">
          {t('chats.deleteFailed', { reason: words(error) })}
        </p>
      )}
      <div className="mt-5 flex justify-end gap-2">
        <button type="button" className="button" onClick={onDone}>
          {t('chats.cancel')}
        </button>
        <button type="button" className="button button-bad" onClick={() => void remove()}>
          {t('chats.confirm')}
        </button>
      </div>
    </Dialog>
  );
}
