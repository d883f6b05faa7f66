// A value of a chat that a page can follow. Knows nothing of what it holds.

/** A value that changes: what React's `useSyncExternalStore` takes. */
export interface Followed<T> {
  readonly get: () => T;
  /** Calls a function whenever the value changes; returns what ends that. */
  readonly subscribe: (listener: () => void) => () => void;
}

export class FollowedValue<T> implements Followed<T> {
  #value: T;
  readonly #listeners = new Set<() => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get = (): T => this.#value;

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  };

  get isFollowed(): boolean {
    return this.#listeners.size > 0;
  }

  set(value: T) {
    this.#value = value;
    for (const listener of [...this.#listeners]) listener();
  }
}
