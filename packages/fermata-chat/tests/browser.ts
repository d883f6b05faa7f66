// What a browser has and Node has not: memory that outlives a page, and locks that tabs share. Both belong to
// one browser, so each test has its own.

/** localStorage, as far as the helper uses it. */
class Memory implements Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> {
  #items = new Map<string, string>();

  get keys() {
    return [...this.#items.keys()];
  }

  getItem(key: string) {
    return this.#items.get(key) ?? null;
  }

  setItem(key: string, value: string) {
    this.#items.set(key, value);
  }

  removeItem(key: string) {
    this.#items.delete(key);
  }
}

type Granted<T> = (lock: Lock | null) => Promise<T>;

/** Web Locks, exclusive ones only: whoever asks gets a lock when all who asked before have given it back. */
class Locks {
  /** Who waits for a lock, oldest first; there is an entry while somebody has it. */
  #lines = new Map<string, (() => void)[]>();
  /** Gives back what somebody has. */
  #held = new Set<() => void>();

  async request<T>(
    name: string,
    options: { ifAvailable?: boolean } | Granted<T>,
    granted?: Granted<T>,
  ): Promise<T> {
    const work = typeof options === 'function' ? options : granted;
    if (work === undefined) throw new TypeError('a callback is missing');
    const line = this.#lines.get(name);
    if (line === undefined) this.#lines.set(name, []);
    else if (typeof options !== 'function' && options.ifAvailable === true) return work(null);
    else await new Promise<void>((resolve) => line.push(resolve));
    const giveBack = () => {
      if (!this.#held.delete(giveBack)) return;
      const next = this.#lines.get(name)?.shift();
      if (next === undefined) this.#lines.delete(name);
      else next();
    };
    this.#held.add(giveBack);
    try {
      return await work({ name, mode: 'exclusive' });
    } finally {
      giveBack();
    }
  }

  /** What becomes of locks whose page goes away. */
  giveAllBack() {
    for (const giveBack of [...this.#held]) giveBack();
  }
}

export class Browser {
  memory = new Memory();
  #locks = new Locks();

  /** Has this be the browser that pages find. */
  install() {
    Object.defineProperty(globalThis, 'localStorage', { value: this.memory, configurable: true });
    Object.defineProperty(globalThis, 'navigator', { value: { locks: this.#locks }, configurable: true });
  }

  /** As in a sandboxed frame, which has no origin of its own. */
  refuseLocks() {
    this.#locks.request = () => Promise.reject(new DOMException('denied', 'SecurityError'));
  }

  /** All pages are closed. */
  closePages() {
    this.#locks.giveAllBack();
  }
}
