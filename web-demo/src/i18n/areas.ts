// The texts of the page, by area. Each area is a file per language, found by its name: `en/<area>.ts`,
// `zh/<area>.ts`. An area's English file says what its keys are; a line here makes them known to
// `useTranslation('<area>')`.

import type cards from './en/cards';
import type shell from './en/shell';

export interface Areas {
  cards: typeof cards;
  shell: typeof shell;
}

/** The same keys with other words. */
export type Translated<TEXTS> = {
  readonly [KEY in keyof TEXTS]: TEXTS[KEY] extends string ? string : Translated<TEXTS[KEY]>;
};
