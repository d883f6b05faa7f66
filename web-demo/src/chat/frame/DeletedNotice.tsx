// Says that the chat which is shown was deleted, in another tab or on another device.

import type { FermataChat } from 'fermata-chat';
import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useCell, usePicked } from '../../state/cell';
import { showNewChat } from '../server/chatId';
import { chats } from '../server/chats';
import { unknownChats } from '../server/server';

interface Props {
  chatId: string;
  chat: Pick<FermataChat, 'refresh'>;
  messages: readonly { role: string }[];
}

export function DeletedNotice({ chatId, chat, messages }: Props) {
  const { t } = useTranslation();
  const isUnknown = useCell(unknownChats).has(chatId);
  const isListed = usePicked(chats, (list) => list.chats.some(({ id }) => id === chatId));
  const [wasListed, setWasListed] = useState(isListed);
  if (isListed && !wasListed) setWasListed(true);
  const isMissing = wasListed && !isListed;
  // The list reports a deletion first. The server confirms it.
  useEffect(() => {
    if (isMissing) void chat.refresh();
  }, [isMissing, chat]);
  // A new chat is unknown as well, until its first message has arrived.
  if (!isUnknown || !messages.some(({ role }) => role === 'assistant')) return null;
  return (
    <div className="column pb-2">
      <div
        role="alert"
        className="flex flex-wrap items-center gap-3 rounded-card bg-sunken px-4 py-3 text-sm"
      >
        <p className="min-w-48 flex-1">{t('deletedChat')}</p>
        <button type="button" className="button" onClick={showNewChat}>
          {t('chats.new')}
        </button>
      </div>
    </div>
  );
}
