// The way to a chat that nobody has begun, above both lists.

import { Plus } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import { showNewChat } from '../server/chatId';

export function NewChatButton({ onShow }: { onShow: () => void }) {
  const { t } = useTranslation();
  return (
    <button
      type="button"
      className="button flex-1 justify-center"
      onClick={() => {
        showNewChat();
        onShow();
      }}
    >
      <Plus className="size-4" aria-hidden="true" />
      {t('chats.new')}
    </button>
  );
}
