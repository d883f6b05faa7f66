// Language and theme.

import { Bell, Monitor, Moon, Sun } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import { chooseLanguage, language, type Language } from '../i18n/language';
import { chooseTheme, theme, type Theme } from '../i18n/theme';
import { useCell } from './cell';
import { notifies, permission, setNotifies } from './runs/notifications';

/** Each language in its own words, so that who cannot read the page finds it. */
const LANGUAGES: Record<Language, { name: string; tag: string }> = {
  en: { name: 'English', tag: 'en' },
  zh: { name: '中文', tag: 'zh-CN' },
};

const THEMES = { system: Monitor, light: Sun, dark: Moon } satisfies Record<Theme, unknown>;

const SEGMENT =
  'inline-flex h-8 min-w-9 cursor-pointer items-center justify-center rounded-md px-2 text-xs ' +
  'text-muted transition-colors hover:text-ink aria-pressed:bg-raised aria-pressed:text-ink ' +
  'aria-pressed:shadow-xs pointer-coarse:h-11 pointer-coarse:min-w-11';

export function Settings() {
  const { t } = useTranslation();
  const tongue = useCell(language);
  const look = useCell(theme);
  return (
    <div className="flex flex-wrap items-center gap-2">
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
      <div role="group" aria-label={t('theme.label')} className="segments">
        {(Object.keys(THEMES) as Theme[]).map((one) => {
          const Icon = THEMES[one];
          return (
            <button
              key={one}
              type="button"
              aria-label={t(`theme.${one}`)}
              title={t(`theme.${one}`)}
              aria-pressed={one === look}
              className={SEGMENT}
              onClick={() => {
                chooseTheme(one);
              }}
            >
              <Icon className="size-4" aria-hidden="true" />
            </button>
          );
        })}
      </div>
      <Notifications />
    </div>
  );
}

/** Whether the browser tells the person when something waits while the page is hidden. */
function Notifications() {
  const { t } = useTranslation('runs');
  const isOn = useCell(notifies);
  const allowed = permission();
  if (allowed === 'unsupported') return null;
  const label = t(allowed === 'denied' ? 'notification.blocked' : 'notification.on');
  return (
    <div className="segments">
      <button
        type="button"
        aria-label={label}
        title={label}
        aria-pressed={isOn}
        disabled={allowed === 'denied'}
        className={`${SEGMENT} disabled:cursor-default disabled:opacity-50`}
        onClick={() => void setNotifies(!isOn)}
      >
        <Bell className="size-4" aria-hidden="true" />
      </button>
    </div>
  );
}
