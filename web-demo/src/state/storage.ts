// What the browser keeps for the page. Every access may be forbidden, or the store may be full: the page
// works without it.

type Kind = 'localStorage' | 'sessionStorage';

export function recall(key: string, kind: Kind = 'localStorage'): string | undefined {
  try {
    return globalThis[kind].getItem(key) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Keeps a value; `undefined` forgets it. */
export function keep(key: string, value: string | undefined, kind: Kind = 'localStorage') {
  try {
    if (value === undefined) globalThis[kind].removeItem(key);
    else globalThis[kind].setItem(key, value);
  } catch {
    // It holds until the page is reloaded.
  }
}
