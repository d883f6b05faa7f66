// One button for everything that is set and left alone: language, theme, notifications, memories, and which page is shown.

import { Settings as Gear, X } from 'lucide-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useCell } from '../../state/cell';
import { MemoriesEntry } from '../memories/MemoriesEntry';
import { notifies, permission, setNotifies } from '../runs/notifications';
import { chatUrl } from '../server/chatId';
import { Dialog } from '../ui/Dialog';
import { IconButton } from '../ui/IconButton';
import { Setting } from '../ui/Setting';
import { Languages, SEGMENT, Themes } from './Looks';
import { openKeys } from './Shortcuts';

/** The two pages of the demo. */
export type PageName = 'plain' | 'assistant';

const PATHS: Record<PageName, string> = { plain: '/', assistant: '/assistant-ui' };

interface Props {
  page: PageName;
  chatId: string;
}

export function Settings(props: Props) {
  const { t } = useTranslation();
  const [isOpen, setOpen] = useState(false);
  const close = () => {
    setOpen(false);
  };
  return (
    <>
      <button
        type="button"
        aria-haspopup="dialog"
        className={
          'flex min-h-9 w-full cursor-pointer items-center gap-2 rounded-lg px-2.5 text-sm text-muted ' +
          'transition-colors hover:bg-raised/60 hover:text-ink pointer-coarse:min-h-11'
        }
        onClick={() => {
          setOpen(true);
        }}
      >
        <Gear className="size-4" aria-hidden="true" />
        {t('settings.label')}
      </button>
      {isOpen && (
        <Dialog
          title={t('settings.label')}
          onClose={close}
          beside={
            <IconButton label={t('settings.close')} onClick={close}>
              <X />
            </IconButton>
          }
        >
          <div className="divide-y divide-line">
            <Languages />
            <Themes />
            <Notifications />
            <MemoriesEntry onShow={close} />
            <Setting label={t('keys.title')}>
              <button
                type="button"
                aria-haspopup="dialog"
                className="button"
                onClick={() => {
                  close();
                  openKeys();
                }}
              >
                {t('keys.show')}
              </button>
            </Setting>
            <Pages {...props} />
          </div>
        </Dialog>
      )}
    </>
  );
}

/** The switch for notifications when something waits while the page is hidden. */
function Notifications() {
  const { t } = useTranslation('runs');
  const isOn = useCell(notifies);
  const allowed = permission();
  if (allowed === 'unsupported') return null;
  return (
    <label className="flex min-h-14 cursor-pointer items-center justify-between gap-4 py-2 text-sm">
      <span>{t(allowed === 'denied' ? 'notification.blocked' : 'notification.on')}</span>
      <input
        type="checkbox"
        role="switch"
        checked={isOn}
        disabled={allowed === 'denied'}
        className="switch shrink-0"
        onChange={() => void setNotifies(!isOn)}
      />
    </label>
  );
}

/** The pages of the demo, which show the same chats, and the page for the command line. */
function Pages({ page, chatId }: Props) {
  const { t } = useTranslation();
  return (
    <Setting label={t('pages.label')}>
      <nav aria-label={t('pages.label')} className="segments">
        {(Object.keys(PATHS) as PageName[]).map((one) => (
          <a
            key={one}
            className={SEGMENT}
            href={chatUrl(chatId, PATHS[one])}
            aria-current={one === page ? 'page' : undefined}
          >
            {t(`pages.${one}`)}
          </a>
        ))}
        <a className={SEGMENT} href="/curl">
          {t('pages.curl')}
        </a>
      </nav>
    </Setting>
  );
}
