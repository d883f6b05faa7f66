// The texts of the cards. They are in an i18next of their own, so they never meet the texts of your page.
//
//   void texts.changeLanguage('zh');
//
// Another language is one more pair of files like those in `zh`:
//
//   texts.addResourceBundle('de', 'cards', cards);
//   texts.addResourceBundle('de', 'runs', runs);
//   void texts.changeLanguage('de');

import i18next from 'i18next';
import { useMemo, useSyncExternalStore } from 'react';
import type { Areas } from './areas';
import cards from './en/cards';
import runs from './en/runs';
import zhCards from './zh/cards';
import zhRuns from './zh/runs';

/** The keys of an area, with dots. A text that depends on a number has one key for all of its forms. */
type Keys<TEXTS> = {
  [KEY in keyof TEXTS & string]: TEXTS[KEY] extends string ? Form<KEY> : `${KEY}.${Keys<TEXTS[KEY]>}`;
}[keyof TEXTS & string];
type Form<KEY extends string> = KEY extends `${infer BASE}_one` | `${infer BASE}_other` ? BASE : KEY;

/** Returns a text with its places filled in. */
export type TFunction<AREA extends keyof Areas> = (
  key: Keys<Areas[AREA]>,
  values?: Record<string, unknown>,
) => string;

export const texts = i18next.createInstance();
void texts.init({
  resources: { en: { cards, runs }, zh: { cards: zhCards, runs: zhRuns } },
  lng: 'en',
  fallbackLng: 'en',
  initAsync: false,
  showSupportNotice: false,
  interpolation: { escapeValue: false },
});

/** The page may give i18next other types, which are not those of these texts. */
const translate = texts.t as unknown as (key: string, values: Record<string, unknown>) => string;

const languageOf = () => texts.language;

function subscribe(listener: () => void) {
  texts.on('languageChanged', listener);
  return () => {
    texts.off('languageChanged', listener);
  };
}

/** The texts of an area, in the language of the cards. */
export function useTranslation<AREA extends keyof Areas>(area: AREA): { t: TFunction<AREA> } {
  const lng = useSyncExternalStore(subscribe, languageOf, languageOf);
  return useMemo(() => ({ t: (key, values) => translate(key, { ns: area, lng, ...values }) }), [area, lng]);
}
