// Deletes a message, once the person has confirmed it.

import { Trash2 } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { flushSync } from 'react-dom';
import { useTranslation } from 'react-i18next';
import type { FermataChat } from 'fermata-chat';
import { focusComposer } from '../ui/focusComposer';
import { Dialog } from '../ui/Dialog';
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
        <Dialog title={t('messages.deleteTitle')} onClose={close}>
          <p>{t('messages.deleteText')}</p>
          {error !== undefined && (
            <p role="alert" className="mt-3 text-bad">
              {t('messages.deleteFailed', { reason: words(error) })}
            </p>
          )}
          <div className="mt-5 flex justify-end gap-2">
            <button type="button" className="button" onClick={close}>
              {t('messages.cancel')}
            </button>
            <button type="button" className="button button-bad" onClick={() => void remove()}>
              {t('messages.deleteConfirm')}
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}
