// A block of code, with its language and a button that copies it.

import { useRef, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { CopyButton } from '../ui/CopyButton';

interface Props {
  /** As the text names it; absent if it does not. */
  language: string | undefined;
  /** Buttons beside the one that copies. */
  actions?: ReactNode;
  /** A drawing of the code, below it or, if the code is hidden, in its place. */
  drawing?: ReactNode;
  isHidden?: boolean;
  children: ReactNode;
}

export function CodeBlock({ language, actions, drawing, isHidden = false, children }: Props) {
  const { t } = useTranslation();
  const code = useRef<HTMLPreElement>(null);
  return (
    <div className="code">
      <div className="flex items-center pl-4 text-xs text-muted">
        <span className="flex-1">{language}</span>
        {actions}
        <CopyButton label={t('messages.copyCode')} text={() => code.current?.textContent ?? ''} />
      </div>
      {/* A wide block scrolls by itself, even by keyboard. */}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <pre ref={code} dir="ltr" tabIndex={0} hidden={isHidden}>
        {children}
      </pre>
      {drawing}
    </div>
  );
}
