import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type * as Token from '../token';

let token: typeof Token;

/** A server that takes one token, and notes what it was given. */
function serve(right: string) {
  const seen: (string | null)[] = [];
  vi.stubGlobal('fetch', (_: unknown, init?: RequestInit) => {
    const given = new Headers(init?.headers).get('authorization');
    seen.push(given);
    return Promise.resolve(new Response(null, { status: given === `Bearer ${right}` ? 200 : 401 }));
  });
  return seen;
}

beforeEach(async () => {
  sessionStorage.clear();
  vi.resetModules();
  token = await import('../token');
});

afterEach(() => {
  vi.unstubAllGlobals();
});

const asked = (what: Token.Asking) => vi.waitUntil(() => token.asking.value === what);

test('a request that wants a token waits for it, and is made again with it', async () => {
  const seen = serve('right');
  const response = token.authorized('/api/chats');
  await asked('wanted');
  token.giveToken('right');
  expect((await response).status).toBe(200);
  expect(seen).toEqual([null, 'Bearer right']);
});

test('a token that is refused is asked for again', async () => {
  serve('right');
  const response = token.authorized('/api/chats');
  await asked('wanted');
  token.giveToken('wrong');
  await asked('refused');
  token.giveToken('right');
  expect((await response).status).toBe(200);
});

test('several requests ask once, and all of them go on', async () => {
  serve('right');
  const responses = [token.authorized('/a'), token.authorized('/b')];
  await asked('wanted');
  token.giveToken('right');
  expect((await Promise.all(responses)).map(({ status }) => status)).toEqual([200, 200]);
  expect(token.asking.value).toBe('none');
});

test('who gives none is shown the refusal', async () => {
  serve('right');
  const response = token.authorized('/api/chats');
  await asked('wanted');
  token.giveToken(undefined);
  expect((await response).status).toBe(401);
});

test('a token is kept as long as the tab', async () => {
  token.giveToken('right');
  vi.resetModules();
  const seen = serve('right');
  const later = await import('../token');
  await later.authorized('/api/chats');
  expect(seen).toEqual(['Bearer right']);
});
