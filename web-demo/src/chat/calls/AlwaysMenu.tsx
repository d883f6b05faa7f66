// Approve, with a menu of other calls that a person can allow with the same answer, their reach and their duration.

import { ChevronDown } from 'lucide-react';
import { useId, useRef, useState, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import type { Always, Scope } from 'fermata-chat';
import { Button } from '../ui/Button';
import { scopeWords } from './asked';

export interface AlwaysMenuProps {
  tool: string;
  /** The scopes that "always" can have, the narrowest first. */
  scopes: readonly Scope[];
  disabled: boolean;
  onChoose: (always: Always) => void;
  /** The button that approves this call alone. */
  children: ReactNode;
}

/** For whom and how long. */
const TERMS = [
  { key: 'chat', for: 'chat' },
  { key: 'day', for: 'chat', until: '24h' },
  { key: 'owner', for: 'owner' },
] as const;

export function AlwaysMenu({ tool, scopes, disabled, onChoose, children }: AlwaysMenuProps) {
  const { t } = useTranslation('cards');
  const [isOpen, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const menu = useId();
  if (scopes.length === 0) return children;
  return (
    <>
      <span className="inline-flex gap-px">
        {children}
        <Button
          ref={button}
          tone="primary"
          disabled={disabled}
          aria-expanded={isOpen}
          aria-controls={menu}
          aria-label={t('always.more')}
          title={t('always.more')}
          className="shrink-0 rounded-l-none px-2!"
          onClick={() => {
            setOpen(!isOpen);
          }}
        >
          <ChevronDown aria-hidden className={`size-4 ${isOpen ? 'rotate-180' : ''}`} />
        </Button>
      </span>
      <div
        id={menu}
        role="group"
        aria-label={t('always.more')}
        hidden={!isOpen}
        className="order-last w-full rounded-lg border border-field py-1"
      >
        {scopes.flatMap((scope) =>
          TERMS.map(({ key, ...terms }) => (
            <Button
              key={`${scope.id} ${key}`}
              tone="quiet"
              disabled={disabled}
              className="w-full justify-start! py-1.5 text-left"
              onKeyDown={(event) => {
                if (event.key !== 'Escape') return;
                event.preventDefault();
                setOpen(false);
                button.current?.focus();
              }}
              onClick={() => {
                onChoose({ scope: scope.id, ...terms });
              }}
            >
              <span className="wrap-anywhere">
                {t(`always.${key}`, { covers: scopeWords(scope, tool, t) })}
              </span>
            </Button>
          )),
        )}
      </div>
    </>
  );
}
