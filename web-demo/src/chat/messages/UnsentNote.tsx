// Below a message of the person that waits for the network.

import type { FermataChat } from 'fermata-chat';
import { useUnsent } from 'fermata-chat/react';
import { useTranslation } from 'react-i18next';

export function UnsentNote({ chat, messageId }: { chat: Pick<FermataChat, 'unsent'>; messageId: string }) {
  const { t } = useTranslation('runs');
  const unsent = useUnsent(chat);
  if (unsent?.isWaiting !== true || unsent.message.id !== messageId) return null;
  return (
    <p role="status" className="mt-1 text-xs text-wait">
      {t('unsent')}
    </p>
  );
}
