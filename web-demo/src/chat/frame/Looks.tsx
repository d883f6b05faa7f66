// The language and the theme of a page, to choose.

import { Monitor, Moon, Sun } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import { chooseLanguage, language, type Language } from '../../i18n/language';
import { chooseTheme, theme, type Theme } from '../../i18n/theme';
import { useCell } from '../../state/cell';
import { Setting } from '../ui/Setting';

/** Each language in its own words, so that who cannot read the page finds it. */
const LANGUAGES: Record<Language, { name: string; tag: string }> = {
  en: { name: 'English', tag: 'en' },
  zh: { name: '中文', tag: 'zh-CN' },
};

const THEMES = { system: Monitor, light: Sun, dark: Moon } satisfies Record<Theme, unknown>;

/** One of several choices in a row. */
export const SEGMENT =
  'inline-flex h-8 cursor-pointer items-center justify-center gap-1.5 rounded-md px-2.5 text-sm whitespace-nowrap ' +
  'text-muted transition-colors hover:text-ink pointer-coarse:h-11 [&_svg]:size-4 ' +
  'aria-pressed:bg-raised aria-pressed:text-ink aria-pressed:shadow-xs ' +
  'aria-[current]:bg-raised aria-[current]:text-ink aria-[current]:shadow-xs';

export function Languages() {
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

export function Themes() {
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
