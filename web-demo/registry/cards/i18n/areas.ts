// The texts of the cards, by area. An area is a file per language: `en/<area>.ts`, `zh/<area>.ts`.

import type cards from './en/cards';
import type runs from './en/runs';

export interface Areas {
  cards: typeof cards;
  runs: typeof runs;
}

/** The same keys with other words. */
export type Translated<TEXTS> = {
  readonly [KEY in keyof TEXTS]: TEXTS[KEY] extends string ? string : Translated<TEXTS[KEY]>;
};
