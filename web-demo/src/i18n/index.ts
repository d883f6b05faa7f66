// Sets the language up. Both languages are in the bundle: together they are a few kilobytes, and switching is
// instant. It knows no text: the areas bring them (see areas.ts).

import i18next, { type Resource } from 'i18next';
import { initReactI18next } from 'react-i18next';
import type { Areas } from './areas';
import { language } from './language';

declare module 'i18next' {
  interface CustomTypeOptions {
    defaultNS: 'shell';
    resources: Areas;
    returnNull: false;
  }
}

/** Each area's texts, by `./<language>/<area>.ts`. */
const files = import.meta.glob<Record<string, unknown>>(['./en/*.ts', './zh/*.ts'], {
  eager: true,
  import: 'default',
});

/** The texts by language and area. */
export function resources(): Resource {
  const all: Resource = {};
  for (const [path, texts] of Object.entries(files)) {
    const [, tongue, area] = /^\.\/(\w+)\/([\w-]+)\.ts$/.exec(path) ?? [];
    if (tongue === undefined || area === undefined) continue;
    (all[tongue] ??= {})[area] = texts;
  }
  return all;
}

/** Before the first rendering. */
export function setUpLanguage() {
  void i18next.use(initReactI18next).init({
    resources: resources(),
    lng: language.value,
    fallbackLng: 'en',
    defaultNS: 'shell',
    initAsync: false,
    showSupportNotice: false,
    interpolation: { escapeValue: false },
  });
  const follow = () => {
    document.documentElement.lang = language.value === 'zh' ? 'zh-CN' : 'en';
    if (i18next.language !== language.value) void i18next.changeLanguage(language.value);
  };
  language.subscribe(follow);
  follow();
}
