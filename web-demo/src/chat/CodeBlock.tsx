// A block of code, with a button that copies it.

import { useRef, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { CopyButton } from './CopyButton';

export function CodeBlock({ children }: { children: ReactNode }) {
  const { t } = useTranslation();
  const code = useRef<HTMLPreElement>(null);
  return (
    <div className="group/code relative">
      {/* A wide block scrolls by itself, also by keyboard. */}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <pre ref={code} tabIndex={0}>
        {children}
      </pre>
      <CopyButton
        label={t('messages.copyCode')}
        text={() => code.current?.textContent ?? ''}
        className={
          'absolute top-1.5 right-1.5 bg-sunken opacity-0 group-hover/code:opacity-100 ' +
          'focus-visible:opacity-100 pointer-coarse:opacity-100'
        }
      />
    </div>
  );
}
