// Asks before something is deleted for good.

import type { ReactNode } from 'react';
import { Dialog } from './Dialog';

interface Props {
  title: string;
  text: string;
  /** The words of the two buttons. */
  cancel: string;
  confirm: string;
  onCancel: () => void;
  onConfirm: () => void;
  /** The reason why it was not deleted. */
  children?: ReactNode;
}

export function ConfirmDialog({ title, text, cancel, confirm, onCancel, onConfirm, children }: Props) {
  return (
    <Dialog title={title} onClose={onCancel}>
      <p className="wrap-anywhere">{text}</p>
      {children}
      <div className="mt-5 flex justify-end gap-2">
        <button type="button" className="button" onClick={onCancel}>
          {cancel}
        </button>
        <button type="button" className="button button-bad" onClick={onConfirm}>
          {confirm}
        </button>
      </div>
    </Dialog>
  );
}
