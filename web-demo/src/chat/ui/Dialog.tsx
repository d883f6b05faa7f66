// What stands in front of the page: the browser's own <dialog>, which keeps the focus and closes on Escape.

import { useId, useLayoutEffect, useRef, type ReactNode } from 'react';

interface Props {
  title: string;
  /** A question is small. A page is as high as its content, scrolls if that is too much, and fills the screen of a phone. */
  size?: keyof typeof SIZES;
  /** The content beside the title. */
  beside?: ReactNode;
  onClose: () => void;
  children: ReactNode;
}

const SIZES = {
  question: {
    dialog: 'm-auto w-[min(28rem,calc(100vw-2rem))] rounded-card border',
    head: 'px-6 pt-6',
    body: 'px-6 pt-2 pb-6',
  },
  page: {
    dialog:
      'h-dvh max-h-none w-full max-w-none sm:m-auto sm:h-fit sm:max-h-[min(46rem,calc(100dvh-3rem))] ' +
      'sm:w-[44rem] sm:rounded-card sm:border',
    head: 'px-4 pt-4 sm:px-6 sm:pt-6',
    body: 'px-4 pt-2 pb-4 sm:px-6 sm:pb-6',
  },
};

export function Dialog({ title, size = 'question', beside, onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  const look = SIZES[size];
  // Before it is taken out of the page, because only then does the browser give the focus back.
  useLayoutEffect(() => {
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
        // What is in front of a dialog belongs to it in React, and closes alone.
        event.stopPropagation();
        onClose();
      }}
      className={
        'flex-col overflow-hidden border-field bg-raised text-ink shadow-xl open:flex ' +
        `backdrop:bg-black/40 ${look.dialog}`
      }
    >
      <div className={`flex items-center justify-between gap-2 ${look.head}`}>
        <h2 id={id} className="font-serif text-xl">
          {title}
        </h2>
        {beside}
      </div>
      <div className={`min-h-0 flex-auto overflow-y-auto ${look.body}`}>{children}</div>
    </dialog>
  );
}
