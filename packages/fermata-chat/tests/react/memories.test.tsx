// The list of memories of a page with React.

import '../assistant-ui/dom';
import { StrictMode, useEffect } from 'react';
import { createRoot } from 'react-dom/client';
import { afterEach, expect, test } from 'vitest';
import { fermata, useMemories, type Memory, type MemoryFilter, type UseMemories } from '../../src/react.js';
import { memory, MemoryServer, refusal } from '../memories';
import { gate, until } from '../../../../e2e/harness/until.mjs';

let close = () => {};
afterEach(() => {
  close();
});

/** A page that shows memories. */
function open(memories: Memory[]) {
  const server = new MemoryServer(memories);
  const client = fermata({ fetch: server.fetch });
  const root = createRoot(document.createElement('div'));
  const shown = { current: undefined as UseMemories | undefined };
  /** Every list that was drawn. */
  const seen: string[] = [];
  function Page({ filter }: { filter: MemoryFilter }) {
    const use = useMemories(client.memories, filter);
    useEffect(() => {
      shown.current = use;
      const drawn = outline() ?? '';
      if (seen.at(-1) !== drawn) seen.push(drawn);
    });
    return null;
  }
  const show = (filter: MemoryFilter = {}) => {
    root.render(
      <StrictMode>
        <Page filter={filter} />
      </StrictMode>,
    );
  };
  close = () => {
    root.unmount();
  };
  show();
  const outline = () => {
    const list = shown.current?.list;
    if (list?.status !== 'ready') return list?.status;
    return list.memories.map(({ text, isForgotten }) => (isForgotten ? `(${text})` : text)).join(', ');
  };
  const shows = (words: string) =>
    until(
      () => outline() === words,
      () => `"${words}"; shown: ${outline() ?? 'nothing'}`,
    );
  const page = () => {
    if (shown.current === undefined) throw new Error('nothing is shown yet');
    return shown.current;
  };
  return { server, show, shows, seen, page };
}

const tea = memory('a', 'drinks tea');
const bern = memory('b', 'lives in Bern', { slot: 'place' });
const cats = memory('c', 'has cats');

test('the list grows by a part at a time', async () => {
  const { shows, page } = open([tea, bern, cats]);
  await shows('drinks tea, lives in Bern');
  expect(page().list).toMatchObject({ hasMore: true });
  await page().loadMore();
  await shows('drinks tea, lives in Bern, has cats');
  expect(page().list).toMatchObject({ hasMore: false });
});

test('what is forgotten keeps its place, and comes back there', async () => {
  const { shows, page } = open([tea, bern]);
  await shows('drinks tea, lives in Bern');
  await page().forget('a');
  await shows('(drinks tea), lives in Bern');
  await page().undo('a');
  await shows('drinks tea, lives in Bern');
});

test('a new memory comes first, and takes the slot from the one that had it', async () => {
  const { shows, page } = open([tea, bern]);
  await shows('drinks tea, lives in Bern');
  const { id } = await page().add({ text: 'lives in Basel', slot: 'place' });
  await shows('lives in Basel, drinks tea');
  await page().undo(id);
  await shows('drinks tea');
});

test('a change that is refused changes nothing', async () => {
  const { server, shows, page } = open([tea]);
  await shows('drinks tea');
  server.instead = { PATCH: () => refusal(422, 'invalid_request', 'text is empty.') };
  await expect(page().change('a', { text: '' })).rejects.toThrow('text is empty.');
  await shows('drinks tea');
});

test('a list that cannot be loaded says why, and is loaded again', async () => {
  const { server, show, shows, page } = open([tea, cats]);
  await shows('drinks tea, has cats');
  server.instead = { GET: () => refusal(500, 'internal', 'The database is away.') };
  show({ query: 'tea' });
  await shows('failed');
  expect(page().list).toMatchObject({ error: { message: 'The database is away.' } });
  server.instead = {};
  await page().reload();
  await shows('drinks tea');
});

test('an answer that comes late does not replace a newer one', async () => {
  const { opened, open: release } = gate();
  const { server, show, shows, seen } = open([tea, cats]);
  await shows('drinks tea, has cats');
  server.instead = { 'GET /api/memories?query=tea': () => opened.then(() => undefined) };
  show({ query: 'tea' });
  await until(() => server.requests.some((request) => request.includes('tea')), 'the search for tea');
  show({ query: 'cats' });
  await shows('has cats');
  release();
  show({ query: 'dogs' });
  await shows('');
  expect(seen).toEqual(['loading', 'drinks tea, has cats', 'has cats', '']);
});
