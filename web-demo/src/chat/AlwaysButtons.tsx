// "Always": a button that says what it covers, and a menu of the other things that it can mean.

import { ChevronDown } from 'lucide-react';
import { useId, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { Always, Scope } from 'fermata-chat';
import { scopeLabel, scopeWords } from './asked';
import { Button } from './Button';

export interface AlwaysButtonsProps {
  tool: string;
  /** What "always" can mean, the narrowest first. */
  scopes: readonly Scope[];
  isBusy: boolean;
  disabled: boolean;
  onChoose: (always: Always) => void;
}

/** For whom and how long. */
const TERMS = [
  { key: 'chat', for: 'chat' },
  { key: 'day', for: 'chat', until: '24h' },
  { key: 'owner', for: 'owner' },
] as const;

export function AlwaysButtons({ tool, scopes, isBusy, disabled, onChoose }: AlwaysButtonsProps) {
  const { t } = useTranslation('cards');
  const [isOpen, setOpen] = useState(false);
  const menu = useId();
  const [first] = scopes;
  if (first === undefined) return null;
  return (
    <>
      <span className="inline-flex max-w-full gap-px">
        <Button
          {...{ isBusy, disabled }}
          title={t('always.hint', { covers: scopeWords(first, tool, t) })}
          onClick={() => {
            onChoose({ scope: first.id });
          }}
        >
          {t('always.button', { what: scopeLabel(first, tool, t) })}
        </Button>
        <Button
          disabled={disabled || isBusy}
          aria-expanded={isOpen}
          aria-controls={menu}
          aria-label={t('always.more')}
          title={t('always.more')}
          className="w-10 shrink-0 px-0"
          onClick={() => {
            setOpen(!isOpen);
          }}
        >
          <ChevronDown aria-hidden className={`size-4 ${isOpen ? 'rotate-180' : ''}`} />
        </Button>
      </span>
      <ul id={menu} hidden={!isOpen} aria-label={t('always.more')} className="order-last w-full space-y-1">
        {scopes.flatMap((scope) =>
          TERMS.map(({ key, ...terms }) => (
            <li key={`${scope.id} ${key}`}>
              <Button
                tone="quiet"
                disabled={disabled || isBusy}
                className="text-left"
                onClick={() => {
                  onChoose({ scope: scope.id, ...terms });
                }}
              >
                {t(`always.${key}`, { covers: scopeWords(scope, tool, t) })}
              </Button>
            </li>
          )),
        )}
      </ul>
    </>
  );
}
