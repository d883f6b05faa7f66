// What stands in front of the page: the browser's own <dialog>, which keeps the focus and closes on Escape.

import { useId, useLayoutEffect, useRef, type ReactNode } from 'react';

interface Props {
  title: string;
  /** A question is small. A page is as high as there is room, and on a phone the whole screen. */
  size?: keyof typeof SIZES;
  /** What stands beside the title. */
  beside?: ReactNode;
  onClose: () => void;
  children: ReactNode;
}

const SIZES = {
  question: 'm-auto w-[min(28rem,calc(100vw-2rem))] rounded-card border p-6',
  page:
    'h-dvh max-h-none w-full max-w-none p-4 sm:m-auto sm:h-[min(46rem,calc(100dvh-3rem))] sm:w-[44rem] ' +
    'sm:rounded-card sm:border sm:p-6 open:flex flex-col',
};

export function Dialog({ title, size = 'question', beside, onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
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
      className={`border-line bg-raised text-ink shadow-xl backdrop:bg-black/40 ${SIZES[size]}`}
    >
      <div className="mb-2 flex items-center justify-between gap-2">
        <h2 id={id} className="font-serif text-xl">
          {title}
        </h2>
        {beside}
      </div>
      {children}
    </dialog>
  );
}
