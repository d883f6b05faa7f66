// A value that components follow. It knows nothing of its content; a write notifies every component that
// reads it.

import { useSyncExternalStore } from 'react';

export class Cell<VALUE> {
  #value: VALUE;
  #readers = new Set<() => void>();

  constructor(value: VALUE) {
    this.#value = value;
  }

  get value(): VALUE {
    return this.#value;
  }

  set(value: VALUE) {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const tell of this.#readers) tell();
  }

  readonly subscribe = (tell: () => void) => {
    this.#readers.add(tell);
    return () => {
      this.#readers.delete(tell);
    };
  };

  readonly read = () => this.#value;
}

/** The value, and a new rendering whenever it changes. */
export const useCell = <VALUE>(cell: Cell<VALUE>): VALUE => useSyncExternalStore(cell.subscribe, cell.read);

/** The part of the value that `pick` takes out, and a new rendering whenever that part changes. */
export const usePicked = <VALUE, PICKED>(cell: Cell<VALUE>, pick: (value: VALUE) => PICKED): PICKED =>
  useSyncExternalStore(cell.subscribe, () => pick(cell.value));
