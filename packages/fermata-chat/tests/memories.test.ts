// The memories of a person, and what a message says of them.

import { expect, test } from 'vitest';
import { fermata, FermataTransport, memoryOf, type Memory } from '../src/index.js';
import { memory, MemoryServer } from './memories';
import { MemoryChat } from './world';

function page(memories: Memory[] = [], api?: string) {
  const server = new MemoryServer(memories);
  const client = fermata({ fetch: server.fetch, ...(api !== undefined && { api }) });
  return { server, memories: client.memories };
}

test('memories are searched, by words and by kind', async () => {
  const { server, memories } = page([
    memory('a', 'drinks tea'),
    memory('b', 'prefers tea', { kind: 'preference' }),
    memory('c', 'lives in Bern'),
  ]);
  const found = await memories.list({ query: 'tea', kind: 'preference', limit: 5 });
  expect(found.memories.map(({ id }) => id)).toEqual(['b']);
  expect(found.next).toBeUndefined();
  expect(server.requests).toEqual(['GET /api/memories?query=tea&kind=preference&limit=5']);
});

test('an export has every page of the list', async () => {
  const all = ['a', 'b', 'c', 'd', 'e'].map((id) => memory(id, id));
  const { server, memories } = page(all);
  const exported: Memory[] = [];
  for await (const one of memories.all()) exported.push(one);
  expect(exported).toEqual(all);
  expect(server.requests.length).toBe(3);
});

test('a memory is saved, changed and forgotten, and each of it is undone', async () => {
  const { server, memories } = page();
  const saved = await memories.add({ text: 'prefers Celsius', kind: 'preference' });
  expect(saved).toMatchObject({ text: 'prefers Celsius', kind: 'preference', pinned: false });
  const { id } = saved;
  expect(await memories.change(id, { pinned: true })).toEqual({ ...saved, pinned: true });
  await memories.forget(id);
  expect(server.memories).toEqual([]);
  expect(await memories.undo(id)).toEqual({ ...saved, pinned: true });
  expect(await memories.undo(id)).toEqual(saved);
  expect(await memories.undo(id)).toBeNull();
  await expect(memories.undo(id)).rejects.toMatchObject({
    name: 'FermataError',
    code: 'nothing_to_undo',
    message: 'No change is left to be undone.',
  });
});

test('all memories are deleted, and their number is known', async () => {
  const { server, memories } = page(
    [memory('a', 'a'), memory('b', 'b')],
    'https://chat.example/base/api/chat',
  );
  expect(await memories.forgetAll()).toBe(2);
  expect(server.requests).toEqual(['DELETE /base/api/memories']);
});

test('a message says what its run has done with memories', () => {
  const celsius = { id: 'a', kind: 'preference', text: 'prefers Celsius' };
  const data = { recalled: [celsius], saved: [], changed: [null, { id: 'b' }], forgotten: 'none' };
  const parts = [
    { type: 'text' as const, text: 'Celsius.' },
    { type: 'data-memory' as const, id: 'run', data },
  ];
  expect(memoryOf({ parts })).toEqual({ recalled: [celsius], saved: [], changed: [], forgotten: [] });
  expect(memoryOf({ parts: parts.slice(0, 1) })).toBeUndefined();
});

test('a post is left out of memory as long as the option says so', async () => {
  const posts: unknown[] = [];
  let memory: boolean | undefined = false;
  const transport = new FermataTransport({
    memory: () => memory,
    fetch: (_url, init) => {
      posts.push((JSON.parse(init?.body as string) as { fermata: { memory?: boolean } }).fermata.memory);
      return Promise.resolve(
        new Response('data: [DONE]\n\n', {
          headers: { 'content-type': 'text/event-stream', 'x-vercel-ai-ui-message-stream': 'v1' },
        }),
      );
    },
  });
  const chat = new MemoryChat({ id: 'chat', transport });
  await chat.sendMessage({ text: 'Do not remember this.' });
  memory = undefined;
  await chat.sendMessage({ text: 'Remember this.' });
  memory = true;
  await chat.sendMessage({ text: 'And this.' });
  expect(posts).toEqual([false, undefined, undefined]);
});
