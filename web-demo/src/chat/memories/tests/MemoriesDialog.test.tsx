// The list of memories, and what a person does with it.

import { fireEvent, render, screen, waitFor, within } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { afterEach, expect, it, vi } from 'vitest';
import type { Memory } from 'fermata-chat';
import { memory, MemoryServer, refusal } from '../../../../../packages/fermata-chat/tests/memories';
import { chatId } from '../../server/chatId';
import { chooseMemory, isMemoryUsed } from '../../server/memoryChoice';
import { OWN, setUpPage } from '../../tests/page';
import { findMemory, hasMemory, isListShown } from '../memories';
import { MemoriesDialog } from '../MemoriesDialog';
import { MemoriesEntry } from '../MemoriesEntry';

setUpPage();
afterEach(() => {
  vi.unstubAllGlobals();
  isListShown.set(false);
  hasMemory.set(false);
  chooseMemory(true);
});

const tea = memory('a', 'drinks tea', { kind: 'preference' });
const bern = memory('b', 'lives in Bern', { slot: 'place', chatId: 'chat-of-bern' });
const cats = memory('c', 'has cats');

function open(memories: Memory[], instead: MemoryServer['instead'] = {}) {
  const server = new MemoryServer(memories);
  server.instead = instead;
  vi.stubGlobal('fetch', server.fetch);
  const onShow = vi.fn<() => void>();
  isListShown.set(true);
  render(<MemoriesDialog onShow={onShow} />);
  return { server, onShow, user: userEvent.setup() };
}

const button = (name: string | RegExp) => screen.findByRole('button', { name });
const rows = () => within(screen.getByRole('list', { name: 'Memories' })).queryAllByRole('listitem');
const row = async (text: string) => {
  const found = (await screen.findByText(text)).closest('li');
  if (found === null) throw new Error(`${text} is in no row`);
  return within(found);
};
const shows = (...texts: string[]) =>
  waitFor(() => {
    expect(rows().map((item) => item.querySelector('p')?.textContent)).toEqual(texts);
  });

it('shows the memories with what is known of them, and more when it is asked', async () => {
  const { user } = open([tea, bern, cats]);
  await shows('drinks tea', 'lives in Bern');
  const facts = (await row('lives in Bern')).getByRole('link', { name: 'from a chat' }).parentElement;
  expect(facts?.textContent).toContain('Factslot place');
  await user.click(await button('Show older memories'));
  await shows('drinks tea', 'lives in Bern', 'has cats');
  expect(screen.queryByRole('button', { name: 'Show older memories' })).toBeNull();
});

it('says who wrote a memory, and what the assistant had read before', async () => {
  const call = { tool: 'remember', toolCallId: 'call_1' };
  open([
    memory('d', 'wrote it', { origin: { by: 'person' } }),
    memory('e', 'read it', { origin: { by: 'tool', ...call, read: ['https://example.com/', 'notes'] } }),
  ]);
  const facts = async (text: string) => (await row(text)).getByRole('time').closest('p')?.textContent;
  expect(await facts('wrote it')).toContain('written by you');
  expect(await facts('read it')).toContain('after reading https://example.com/, notes');
});

it('leads to the chat in which something was said, and closes', async () => {
  const { user, onShow } = open([bern]);
  await user.click((await row('lives in Bern')).getByRole('link'));
  expect(chatId.value).toBe('chat-of-bern');
  expect(onShow).toHaveBeenCalledOnce();
  expect(screen.queryByRole('dialog')).toBeNull();
});

it('finds memories by words and by kind', async () => {
  const { server, user } = open([tea, bern, cats]);
  await shows('drinks tea', 'lives in Bern');
  const search = screen.getByRole('searchbox', { name: 'Search memories' });
  // Who types does not ask with every letter.
  for (const value of ['c', 'ca', 'cat', 'cats']) fireEvent.change(search, { target: { value } });
  await shows('has cats');
  expect(server.requests.filter((request) => request.includes('query=c'))).toEqual([
    'GET /api/memories?query=cats',
  ]);
  await user.selectOptions(screen.getByRole('combobox', { name: 'Kind of memories' }), 'Preference');
  await screen.findByText('No memory has to do with this.');
  await user.clear(search);
  await shows('drinks tea');
});

it('says that there is nothing yet', async () => {
  open([]);
  await screen.findByText(/^Nothing is remembered yet/);
});

it('says why the list cannot be loaded, and loads it again', async () => {
  const { server, user } = open([tea], { GET: () => refusal(500, 'internal', 'The database is away.') });
  expect((await screen.findByRole('alert')).textContent).toContain('The database is away.');
  server.instead = {};
  await user.click(await button('Try again'));
  await shows('drinks tea');
});

it('adds a memory, and gives the focus back', async () => {
  const { server, user } = open([tea]);
  await shows('drinks tea');
  await user.click(await button('Add'));
  expect(document.activeElement).toBe(screen.getByRole('textbox', { name: 'Text' }));
  await user.keyboard('  lives in Basel ');
  await user.type(screen.getByRole('textbox', { name: 'Slot (optional)' }), 'place');
  await user.click(await button('Save'));
  await shows('lives in Basel', 'drinks tea');
  expect(server.requests.at(-1)).toBe(
    'POST /api/memories {"text":"lives in Basel","kind":"fact","slot":"place"}',
  );
  expect(screen.queryByRole('form')).toBeNull();
  expect(document.activeElement).toBe(await button('Add'));
});

it('keeps what was written when it is refused', async () => {
  const { user } = open([], { POST: () => refusal(422, 'invalid_request', 'The text is too long.') });
  await user.click(await button('Add'));
  await user.keyboard('a long story');
  await user.click(await button('Save'));
  expect((await screen.findByRole('alert')).textContent).toBe('The text is too long.');
  expect(screen.getByRole<HTMLTextAreaElement>('textbox', { name: 'Text' }).value).toBe('a long story');
});

it('edits a memory, also its slot', async () => {
  const { server, user } = open([bern]);
  await user.click(await button('Edit “lives in Bern”'));
  const form = within(screen.getByRole('form', { name: 'Edit memory' }));
  const text = form.getByRole('textbox', { name: 'Text' });
  await user.clear(text);
  await user.type(text, 'has a cat');
  await user.selectOptions(form.getByRole('combobox', { name: 'Kind' }), 'Person or thing');
  await user.clear(form.getByRole('textbox', { name: 'Slot (optional)' }));
  await user.click(form.getByRole('button', { name: 'Save' }));
  await shows('has a cat');
  expect(server.requests.at(-1)).toBe(
    'PATCH /api/memories/b {"text":"has a cat","kind":"entity","slot":null}',
  );
  expect(document.activeElement).toBe(await button('Edit “has a cat”'));
});

it('leaves a memory as it was when editing is given up', async () => {
  const { server, user } = open([tea]);
  await user.click(await button('Edit “drinks tea”'));
  await user.keyboard(' and coffee{Escape}');
  await shows('drinks tea');
  expect(screen.getByRole('dialog')).toBeTruthy();
  expect(server.requests.every((request) => request.startsWith('GET'))).toBe(true);
});

it('pins a memory', async () => {
  const { server, user } = open([tea]);
  const pin = await button('Pin “drinks tea”');
  expect(pin.getAttribute('aria-pressed')).toBe('false');
  await user.click(pin);
  await waitFor(() => {
    expect(pin.getAttribute('aria-pressed')).toBe('true');
  });
  expect(server.memories).toEqual([{ ...tea, pinned: true }]);
});

it('deletes a memory, and brings it back in its place, with the focus on what comes next', async () => {
  const { server, user } = open([tea, bern]);
  await user.click(await button('Delete “drinks tea”'));
  await shows('Deleted drinks teaUndo', 'lives in Bern');
  expect(server.memories).toEqual([bern]);
  const undo = await button('Undo “Deleted drinks tea”');
  expect(document.activeElement).toBe(undo);
  await user.click(undo);
  await shows('drinks tea', 'lives in Bern');
  expect(document.activeElement).toBe(await button('Delete “drinks tea”'));
});

it('says why something was not done, and does it when it is asked again', async () => {
  const { server, user } = open([tea], { DELETE: () => refusal(500, 'internal', 'The database is away.') });
  await user.click(await button('Delete “drinks tea”'));
  expect((await screen.findByRole('alert')).textContent).toBe('The database is away.');
  server.instead = {};
  await user.click(await button('Delete “drinks tea”'));
  await shows('Deleted drinks teaUndo');
});

it('deletes all of them, after it has said how many they are', async () => {
  const { server, user } = open([tea, bern, cats]);
  await shows('drinks tea', 'lives in Bern');
  await user.click(await button('Delete all'));
  const question = within(await screen.findByRole('dialog', { name: 'Delete all memories?' }));
  question.getByText('All 3 memories are deleted. This cannot be undone.');
  await user.click(question.getByRole('button', { name: 'Cancel' }));
  expect(server.memories.length).toBe(3);
  await user.click(await button('Delete all'));
  const again = within(await screen.findByRole('dialog', { name: 'Delete all memories?' }));
  await user.click(again.getByRole('button', { name: 'Delete all' }));
  await screen.findByText('3 memories were deleted.');
  await screen.findByText(/^Nothing is remembered yet/);
  expect(server.memories).toEqual([]);
});

it('exports every page of the list', async () => {
  const files: Blob[] = [];
  vi.spyOn(URL, 'createObjectURL').mockImplementation((file) => {
    files.push(file as Blob);
    return 'blob:exported';
  });
  vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(() => undefined);
  const { user } = open([tea, bern, cats]);
  await user.click(await button('Export'));
  await waitFor(() => {
    expect(files.length).toBe(1);
  });
  expect(JSON.parse((await files[0]?.text()) ?? '')).toEqual({ memories: [tea, bern, cats] });
  vi.restoreAllMocks();
});

it('turns memory off in this browser', async () => {
  const { user } = open([]);
  const use = screen.getByRole('switch', { name: 'Use memory on this page' });
  await user.click(use);
  expect([isMemoryUsed.value, localStorage.getItem('fermata.memory')]).toEqual([false, 'off']);
  await user.click(use);
  expect([isMemoryUsed.value, localStorage.getItem('fermata.memory')]).toEqual([true, null]);
});

const json = (body: object) => Response.json(body);
const tools = (...names: string[]) => json({ tools: names.map((name) => ({ name })), own: OWN });

it.each([
  ['there are memories', { 'GET /api/memories': () => json({ memories: [tea] }) }, true],
  [
    'an assistant remembers',
    {
      'GET /api/memories': () => json({ memories: [] }),
      'GET /api/assistants': () => json({ assistants: [{ name: 'default' }, { name: 'friend' }] }),
      'GET /api/tools?assistant=default': () => tools('current_time'),
      'GET /api/tools?assistant=friend': () => tools('current_time', 'remember'),
    },
    true,
  ],
  [
    'no assistant remembers, and there are none',
    {
      'GET /api/memories': () => json({ memories: [] }),
      'GET /api/assistants': () => json({ assistants: [{ name: 'default' }] }),
      'GET /api/tools?assistant=default': () => tools('current_time'),
    },
    false,
  ],
  [
    'the server is of an older version',
    { GET: () => refusal(404, 'not_found', 'There is no such URL.') },
    false,
  ],
])('where %s, whether the entry is shown is %s', async (_, instead: MemoryServer['instead'], isShown) => {
  const server = new MemoryServer();
  server.instead = instead;
  vi.stubGlobal('fetch', server.fetch);
  await findMemory();
  render(<MemoriesEntry onShow={() => undefined} />);
  expect(screen.queryByRole('button', { name: 'Manage memories' }) !== null).toBe(isShown);
});

it('says at its entry that memory is off', async () => {
  const user = userEvent.setup();
  hasMemory.set(true);
  chooseMemory(false);
  render(<MemoriesEntry onShow={() => undefined} />);
  expect(screen.getByText('off')).toBeDefined();
  await user.click(screen.getByRole('button', { name: 'Manage memories' }));
  expect(isListShown.value).toBe(true);
});
