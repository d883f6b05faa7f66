// The bearer token, where the server wants one. A request that is refused for the want of it waits for the
// person to give it, and is made again; nothing else of the page has to know. The token lives as long as the
// tab.

import { Cell } from '../../state/cell';
import { keep, recall } from '../../state/storage';

const KEY = 'fermata.token';

/** `none`: nobody is asked. `wanted`: the server wants a token. `refused`: it did not take the one given. */
export type Asking = 'none' | 'wanted' | 'refused';

export const asking = new Cell<Asking>('none');

let token = recall(KEY, 'sessionStorage');
let waiting: { asked: Promise<boolean>; answer: (isGiven: boolean) => void } | undefined;

export const authorization = (): Record<string, string> =>
  token === undefined ? {} : { authorization: `Bearer ${token}` };

function ask(): Promise<boolean> {
  if (waiting === undefined) {
    let answer: (isGiven: boolean) => void = () => undefined;
    const asked = new Promise<boolean>((resolve) => (answer = resolve));
    waiting = { asked, answer };
    asking.set(token === undefined ? 'wanted' : 'refused');
  }
  return waiting.asked;
}

/** The person gave a token, or would not. */
export function giveToken(given: string | undefined) {
  if (given !== undefined) {
    token = given;
    keep(KEY, given, 'sessionStorage');
  }
  waiting?.answer(given !== undefined);
  waiting = undefined;
  asking.set('none');
}

/** `fetch`, with the token. */
export const authorized: typeof fetch = async (url, init) => {
  for (;;) {
    const used = token;
    const headers = new Headers(init?.headers);
    if (used !== undefined) headers.set('authorization', `Bearer ${used}`);
    const response = await fetch(url, { ...init, headers });
    if (response.status !== 401) return response;
    // Another request may have brought a token meanwhile.
    if (used === token && !(await ask())) return response;
  }
};
