// Whether this page uses memory, as the person chose it. The choice is kept in the browser, and goes with each post.

import { Cell } from '../../state/cell';
import { keep, recall } from '../../state/storage';

const KEY = 'fermata.memory';

export const isMemoryUsed = new Cell(recall(KEY) !== 'off');

export function chooseMemory(isUsed: boolean) {
  keep(KEY, isUsed ? undefined : 'off');
  isMemoryUsed.set(isUsed);
}
