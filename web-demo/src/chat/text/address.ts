// Addresses that a model, a tool or a file part names: which of them may be opened, and where they lead.

/** Schemes that a link may have. A file's own data may be opened; a script may not. */
const IS_SAFE = /^(https?:|mailto:|blob:|data:(?!text\/html|application\/xhtml|image\/svg)|\/)/i;

/** The address if a link may lead there, else `undefined`. */
export const safeAddress = (address: string): string | undefined =>
  IS_SAFE.test(address) ? address : undefined;

/** Returns `true` if a picture is in the address itself, so that showing it asks no server for anything. */
export const isOwnPicture = (address: unknown): address is string =>
  typeof address === 'string' && /^(data:image\/|blob:)/i.test(address);

/**
 * The host of a link, as the browser understands it: a name in other scripts is shown as `xn--…`, and what
 * stands before an `@` is left out. `undefined` for data, which lead nowhere.
 */
export function hostOf(address: string): string | undefined {
  try {
    const { protocol, pathname, host } = new URL(address, document.baseURI);
    if (protocol === 'mailto:') return decodeURIComponent(pathname);
    return host === '' ? undefined : host;
  } catch {
    return undefined;
  }
}
