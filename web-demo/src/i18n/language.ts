// Which language the page speaks: the one that was chosen here, else the browser's.

import { Cell } from '../state/cell';
import { keep, recall } from '../state/storage';

export type Language = 'en' | 'zh';

const KEY = 'fermata.language';

/** The one of ours that is closest to what a person reads. */
export function closest(tags: readonly string[]): Language {
  for (const tag of tags) {
    if (/^zh\b/i.test(tag)) return 'zh';
    if (/^en\b/i.test(tag)) return 'en';
  }
  return 'en';
}

const stored = recall(KEY);

export const language = new Cell<Language>(closest(stored === undefined ? navigator.languages : [stored]));

/**
 * The locale of times and numbers: the person's own, if that is a form of the page's language.
 */
export const localeOf = (spoken: string, tags: readonly string[] = navigator.languages) =>
  tags.find((tag) => tag === spoken || tag.startsWith(`${spoken}-`)) ?? spoken;

export function chooseLanguage(chosen: Language) {
  keep(KEY, chosen);
  language.set(chosen);
}
