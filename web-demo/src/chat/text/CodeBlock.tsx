// A block of code, with its language and a button that copies it.

import { useRef, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { CopyButton } from '../ui/CopyButton';

interface Props {
  /** As the text names it; absent if it does not. */
  language: string | undefined;
  children: ReactNode;
}

export function CodeBlock({ language, children }: Props) {
  const { t } = useTranslation();
  const code = useRef<HTMLPreElement>(null);
  return (
    <div className="code">
      <div className="flex items-center justify-between pl-4 text-xs text-muted">
        <span>{language}</span>
        <CopyButton label={t('messages.copyCode')} text={() => code.current?.textContent ?? ''} />
      </div>
      {/* A wide block scrolls by itself, even by keyboard. */}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <pre ref={code} tabIndex={0}>
        {children}
      </pre>
    </div>
  );
}
