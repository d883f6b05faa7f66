// One button for everything that is set and left alone: language, theme, notifications, memories, and which page is shown.

import { Monitor, Moon, Settings as Gear, Sun, X } from 'lucide-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { chooseLanguage, language, type Language } from '../../i18n/language';
import { chooseTheme, theme, type Theme } from '../../i18n/theme';
import { useCell } from '../../state/cell';
import { MemoriesEntry } from '../memories/MemoriesEntry';
import { notifies, permission, setNotifies } from '../runs/notifications';
import { chatUrl } from '../server/chatId';
import { Dialog } from '../ui/Dialog';
import { IconButton } from '../ui/IconButton';
import { Setting } from '../ui/Setting';
import { openKeys } from './Shortcuts';

/** The two pages of the demo. */
export type PageName = 'plain' | 'assistant';

/** Each language in its own words, so that who cannot read the page finds it. */
const LANGUAGES: Record<Language, { name: string; tag: string }> = {
  en: { name: 'English', tag: 'en' },
  zh: { name: '中文', tag: 'zh-CN' },
};

const THEMES = { system: Monitor, light: Sun, dark: Moon } satisfies Record<Theme, unknown>;

const PATHS: Record<PageName, string> = { plain: '/', assistant: '/assistant-ui' };

const SEGMENT =
  'inline-flex h-8 cursor-pointer items-center justify-center gap-1.5 rounded-md px-2.5 text-sm whitespace-nowrap ' +
  'text-muted transition-colors hover:text-ink pointer-coarse:h-11 [&_svg]:size-4 ' +
  'aria-pressed:bg-raised aria-pressed:text-ink aria-pressed:shadow-xs ' +
  'aria-[current]:bg-raised aria-[current]:text-ink aria-[current]:shadow-xs';

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

function Languages() {
  const { t } = useTranslation();
  const tongue = useCell(language);
  return (
    <Setting label={t('language.label')}>
      <div role="group" aria-label={t('language.label')} className="segments">
        {(Object.keys(LANGUAGES) as Language[]).map((one) => (
          <button
            key={one}
            type="button"
            lang={LANGUAGES[one].tag}
            aria-pressed={one === tongue}
            className={SEGMENT}
            onClick={() => {
              chooseLanguage(one);
            }}
          >
            {LANGUAGES[one].name}
          </button>
        ))}
      </div>
    </Setting>
  );
}

function Themes() {
  const { t } = useTranslation();
  const look = useCell(theme);
  return (
    <Setting label={t('theme.label')}>
      <div role="group" aria-label={t('theme.label')} className="segments">
        {(Object.keys(THEMES) as Theme[]).map((one) => {
          const Icon = THEMES[one];
          return (
            <button
              key={one}
              type="button"
              aria-pressed={one === look}
              className={SEGMENT}
              onClick={() => {
                chooseTheme(one);
              }}
            >
              <Icon aria-hidden="true" />
              {t(`theme.${one}`)}
            </button>
          );
        })}
      </div>
    </Setting>
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
