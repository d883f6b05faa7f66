// A question in front of the page: the browser's own <dialog>, which keeps the focus and closes on Escape.

import { useEffect, useId, useRef, type ReactNode } from 'react';

interface Props {
  title: string;
  onClose: () => void;
  children: ReactNode;
}

export function Dialog({ title, onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      className={
        'm-auto w-[min(28rem,calc(100vw-2rem))] rounded-card border border-line bg-raised p-6 ' +
        'text-ink shadow-xl backdrop:bg-black/40'
      }
    >
      <h2 id={id} className="mb-2 font-serif text-xl">
        {title}
      </h2>
      {children}
    </dialog>
  );
}
