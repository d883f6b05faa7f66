// Asks before a chat is forgotten.

import { useState } from 'react';
import { flushSync } from 'react-dom';
import { useTranslation } from 'react-i18next';
import { chatUrl, showNewChat } from '../server/chatId';
import { chats, deleteChat, type ListedChat } from '../server/chats';
import { ConfirmDialog } from '../ui/ConfirmDialog';
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
    <ConfirmDialog
      title={t('chats.deleteTitle')}
      text={t('chats.deleteText', { title: chat.title ?? t('chats.untitled') })}
      cancel={t('chats.cancel')}
      confirm={t('chats.confirm')}
      onCancel={onDone}
      onConfirm={() => void remove()}
    >
      {error !== undefined && (
        <p role="alert" className="mt-3 text-bad">
          {t('chats.deleteFailed', { reason: words(error) })}
        </p>
      )}
    </ConfirmDialog>
  );
}
