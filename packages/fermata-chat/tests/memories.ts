// The memories of a server that is none: as few of its rules as the package has to do with.

import type { Memory } from '../src/index.js';

export const memory = (id: string, text: string, more: Partial<Memory> = {}): Memory => ({
  id,
  kind: 'fact',
  text,
  pinned: false,
  createdAt: '2026-01-01T00:00:00Z',
  ...more,
});

const json = (body: unknown, status = 200) =>
  new Response(body === undefined ? null : JSON.stringify(body), {
    status,
    headers: { 'content-type': 'application/json' },
  });

export const refusal = (status: number, code: string, detail: string) => json({ code, detail }, status);

/** Answers `/api/memories` from a list, newest first, two at a time. */
export class MemoryServer {
  requests: string[] = [];
  /** What a request waits for, and what it is answered instead, by its beginning. */
  instead: Record<string, () => Response | undefined | Promise<Response | undefined>> = {};
  #undoable: { id: string; before: Memory | undefined }[] = [];

  constructor(public memories: Memory[] = []) {}

  fetch: typeof fetch = async (url, init) => {
    const method = init?.method ?? 'GET';
    const address = new URL(url as string, 'http://server');
    const body = (typeof init?.body === 'string' ? JSON.parse(init.body) : undefined) as Partial<Memory>;
    const said = typeof init?.body === 'string' ? ` ${init.body}` : '';
    const request = `${method} ${address.pathname}${address.search}${said}`;
    this.requests.push(request);
    const [, other] = Object.entries(this.instead).find(([begin]) => request.startsWith(begin)) ?? [];
    const answer = await other?.();
    if (answer !== undefined) return answer;
    const [, id, action] = (address.pathname.split('/memories')[1] ?? '').split('/');
    if (id === undefined) {
      if (method === 'GET') return json(this.#page(address.searchParams));
      if (method === 'DELETE') return json({ deleted: this.memories.splice(0).length });
      return json(this.#put(undefined, memory(`m${this.requests.length}`, '', body)), 201);
    }
    if (action === 'undo') {
      const place = this.#undoable.findLastIndex((change) => change.id === id);
      const [change] = place < 0 ? [] : this.#undoable.splice(place, 1);
      if (change === undefined) return refusal(409, 'nothing_to_undo', 'No change is left to be undone.');
      this.memories = this.memories.filter((one) => one.id !== id);
      if (change.before !== undefined) this.memories.unshift(change.before);
      return json({ memory: change.before ?? null });
    }
    const known = this.memories.find((one) => one.id === id);
    if (known === undefined) return refusal(404, 'not_found', `There is no memory ${id}.`);
    if (method === 'PATCH') return json(this.#put(known, { ...known, ...body }));
    this.#undoable.push({ id, before: known });
    this.memories = this.memories.filter((one) => one.id !== id);
    return new Response(null, { status: 204 });
  };

  #page(search: URLSearchParams) {
    const found = this.memories.filter(
      ({ text, kind }) => text.includes(search.get('query') ?? '') && kind === (search.get('kind') ?? kind),
    );
    const before = search.get('before');
    const rest = before === null ? found : found.slice(found.findIndex(({ id }) => id === before) + 1);
    const last = rest[1];
    return { memories: rest.slice(0, 2), ...(rest.length > 2 && last && { next: last.id }) };
  }

  #put(before: Memory | undefined, after: Memory): Memory {
    this.#undoable.push({ id: after.id, before });
    this.memories = [after, ...this.memories.filter(({ id }) => id !== after.id)];
    return after;
  }
}
