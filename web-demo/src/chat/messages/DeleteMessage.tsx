// Deletes a message, once the person has confirmed it.

import { Trash2 } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { flushSync } from 'react-dom';
import { useTranslation } from 'react-i18next';
import type { FermataChat } from 'fermata-chat';
import { ConfirmDialog } from '../ui/ConfirmDialog';
import { focusComposer } from '../ui/focusComposer';
import { useErrorWords } from '../ui/errorWords';
import { IconButton } from '../ui/IconButton';

interface Props {
  chat: Pick<FermataChat, 'deleteMessage'>;
  messageId: string;
  /** What opens the dialog; an icon by default. */
  children?: (open: () => void) => ReactNode;
}

export function DeleteMessage({ chat, messageId, children }: Props) {
  const { t } = useTranslation();
  const words = useErrorWords();
  const [isAsking, setAsking] = useState(false);
  const [error, setError] = useState<unknown>();
  const open = () => {
    setError(undefined);
    setAsking(true);
  };
  const close = () => {
    setAsking(false);
  };
  const remove = async () => {
    try {
      await chat.deleteMessage(messageId);
    } catch (reason) {
      setError(reason);
      return;
    }
    // The dialog gives the focus back to a button that is gone.
    flushSync(close);
    focusComposer();
  };
  return (
    <>
      {children?.(open) ?? (
        <IconButton label={t('messages.delete')} onClick={open}>
          <Trash2 />
        </IconButton>
      )}
      {isAsking && (
        <ConfirmDialog
          title={t('messages.deleteTitle')}
          text={t('messages.deleteText')}
          cancel={t('messages.cancel')}
          confirm={t('messages.deleteConfirm')}
          onCancel={close}
          onConfirm={() => void remove()}
        >
          {error !== undefined && (
            <p role="alert" className="mt-3 text-bad">
              {t('messages.deleteFailed', { reason: words(error) })}
            </p>
          )}
        </ConfirmDialog>
      )}
    </>
  );
}
