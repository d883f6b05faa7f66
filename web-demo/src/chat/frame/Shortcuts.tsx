// The keys of the pages, and the dialogs that keys open: the search for a chat, and the list of all keys.

import { Search, X } from 'lucide-react';
import { useEffect } from 'react';
import { useTranslation } from 'react-i18next';
import { Cell, useCell } from '../../state/cell';
import { Dialog } from '../ui/Dialog';
import { IconButton } from '../ui/IconButton';
import { isBehindDialog, isWriting } from '../ui/keys';
import { ChatFinder } from './ChatFinder';

type Opened = 'none' | 'finder' | 'keys';

const opened = new Cell<Opened>('none');
const close = () => {
  opened.set('none');
};

export const openFinder = () => {
  opened.set('finder');
};
export const openKeys = () => {
  opened.set('keys');
};

/** What the keys of the whole page open. */
export function Shortcuts() {
  const shown = useCell(opened);
  useEffect(() => {
    document.addEventListener('keydown', onKey);
    return () => {
      document.removeEventListener('keydown', onKey);
    };
  }, []);
  if (shown === 'finder') return <ChatFinder onClose={close} />;
  return shown === 'keys' && <Keys />;
}

function onKey(event: KeyboardEvent) {
  const { key, altKey, shiftKey, target } = event;
  const isCommand = (event.ctrlKey || event.metaKey) && !altKey && !shiftKey;
  const isFind = isCommand && key.toLowerCase() === 'k';
  const isHelp = key === '?' && !event.ctrlKey && !event.metaKey && !isWriting(target);
  if (event.defaultPrevented || !(isFind || isHelp)) return;
  if (opened.value === 'none' && isBehindDialog()) return;
  event.preventDefault();
  const wanted = isFind ? 'finder' : 'keys';
  opened.set(opened.value === wanted ? 'none' : wanted);
}

/** Opens the search for a chat, for those without such keys. */
export function FinderButton({ onOpen }: { onOpen: () => void }) {
  const { t } = useTranslation();
  return (
    <IconButton
      label={t('finder.title')}
      aria-haspopup="dialog"
      aria-keyshortcuts="Control+K Meta+K"
      onClick={() => {
        onOpen();
        openFinder();
      }}
    >
      <Search />
    </IconButton>
  );
}

const isMac = /mac|iphone|ipad/i.test(navigator.userAgent);

const KEYS = {
  send: ['Enter'],
  line: ['Shift', 'Enter'],
  find: [isMac ? '⌘' : 'Ctrl', 'K'],
  edit: ['↑'],
  stop: ['Esc'],
  approve: ['A'],
  deny: ['D'],
  delete: ['Del'],
  keys: ['?'],
} as const;

function Keys() {
  const { t } = useTranslation();
  return (
    <Dialog
      title={t('keys.title')}
      onClose={close}
      beside={
        <IconButton label={t('keys.close')} onClick={close}>
          <X />
        </IconButton>
      }
    >
      <dl className="grid grid-cols-[max-content_1fr] items-baseline gap-x-5 gap-y-2.5 text-sm">
        {(Object.keys(KEYS) as (keyof typeof KEYS)[]).map((what) => (
          <div key={what} className="contents">
            <dt className="flex gap-1">
              {KEYS[what].map((key) => (
                <kbd
                  key={key}
                  className="rounded-md border border-field bg-paper px-1.5 font-sans text-xs leading-5"
                >
                  {key}
                </kbd>
              ))}
            </dt>
            <dd>{t(`keys.${what}`)}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
