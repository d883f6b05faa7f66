// Light or dark: as chosen here, else as the system has it. public/before-paint.js does the same before this
// is loaded.

import { Cell } from '../state/cell';
import { keep, recall } from '../state/storage';

export type Theme = 'system' | 'light' | 'dark';

const KEY = 'fermata.theme';
const stored = recall(KEY);

export const theme = new Cell<Theme>(stored === 'light' || stored === 'dark' ? stored : 'system');

export function chooseTheme(chosen: Theme) {
  keep(KEY, chosen === 'system' ? undefined : chosen);
  theme.set(chosen);
}

/** Before the first rendering. */
export function setUpTheme() {
  const system = matchMedia('(prefers-color-scheme: dark)');
  const follow = () => {
    const isDark = theme.value === 'dark' || (theme.value === 'system' && system.matches);
    document.documentElement.dataset['theme'] = isDark ? 'dark' : 'light';
  };
  theme.subscribe(follow);
  system.addEventListener('change', follow);
  follow();
}
