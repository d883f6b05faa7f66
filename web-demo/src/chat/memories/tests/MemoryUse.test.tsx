// What a message says of memory, and how it is undone.

import { render, screen } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { afterEach, expect, it, vi } from 'vitest';
import { memory, MemoryServer, refusal } from '../../../../../packages/fermata-chat/tests/memories';
import { StepView } from '../../calls/StepView';
import type { Message } from '../../record/message';
import { call, fakeChat, OWN, setUpPage, TOOLS } from '../../tests/page';
import { isListShown, isToldAsMemory, undone } from '../memories';
import { MemoryChanges, UsedMemories } from '../MemoryUse';

vi.mock('../../server/useTools', () => ({ useTools: () => ({ state: 'known', tools: TOOLS }) }));

setUpPage();
afterEach(() => {
  vi.unstubAllGlobals();
  isListShown.set(false);
  undone.set([]);
});

const celsius = { id: 'a', kind: 'preference', text: 'prefers Celsius' };
const bern = { id: 'b', kind: 'fact', text: 'lives in Bern', slot: 'place' };

function message(data: object, ...parts: Message['parts']): Message {
  const use = { recalled: [], saved: [], changed: [], forgotten: [], ...data };
  return {
    id: 'message',
    role: 'assistant',
    parts: [{ type: 'data-memory', id: 'run', data: use }, ...parts],
  };
}

function serve(server = new MemoryServer([memory('a', 'prefers Celsius')])) {
  vi.stubGlobal('fetch', server.fetch);
  return server;
}

const undo = () => screen.getByRole('button', { name: /^(Undo|Undone)/ });

it('lists what was recalled when it is asked, and leads to the memories', async () => {
  const user = userEvent.setup();
  render(<UsedMemories message={message({ recalled: [celsius, bern] })} />);
  const chip = screen.getByRole('button', { name: '2 memories used' });
  expect(screen.queryByRole('list')).toBeNull();
  await user.click(chip);
  expect(screen.getAllByRole('listitem').map((item) => item.textContent)).toEqual([
    'prefers CelsiusPreference',
    'lives in BernFact',
  ]);
  await user.click(screen.getByRole('button', { name: 'Manage memories' }));
  expect(isListShown.value).toBe(true);
});

it('says nothing where nothing was recalled or changed', () => {
  const { container } = render(
    <>
      <UsedMemories message={message({})} />
      <MemoryChanges message={message({ recalled: [celsius] })} />
      <MemoryChanges message={{ id: 'other', role: 'assistant', parts: [] }} />
    </>,
  );
  expect(container.textContent).toBe('');
});

it('says what was saved, changed and forgotten', () => {
  render(<MemoryChanges message={message({ saved: [celsius], changed: [bern], forgotten: [celsius] })} />);
  expect(screen.getAllByRole('listitem').map((item) => item.textContent)).toEqual([
    'Saved: prefers Celsius · Undo',
    'Changed: lives in Bern · Undo',
    'Forgotten: prefers Celsius · Undo',
  ]);
});

it('undoes a change once, and still knows that after a reload', async () => {
  const server = serve();
  await server.fetch('/api/memories/a', { method: 'DELETE' });
  const user = userEvent.setup();
  const view = render(<MemoryChanges message={message({ forgotten: [celsius] })} />);
  await user.dblClick(undo());
  await screen.findByText('Undone');
  await user.click(undo());
  expect(server.requests.filter((request) => request.endsWith('/undo'))).toEqual([
    'POST /api/memories/a/undo',
  ]);
  expect(server.memories.map(({ id }) => id)).toEqual(['a']);
  view.unmount();
  render(<MemoryChanges message={message({ forgotten: [celsius] })} />);
  expect(undo().textContent).toBe('Undone');
  expect(localStorage.getItem('fermata.undone')).toBe('message forgotten a');
});

it('says why something cannot be undone, and lets the person try again', async () => {
  const server = serve();
  server.instead = { POST: () => refusal(409, 'nothing_to_undo', 'No change of this memory is left.') };
  const user = userEvent.setup();
  render(<MemoryChanges message={message({ saved: [celsius] })} />);
  await user.click(undo());
  expect((await screen.findByRole('alert')).textContent).toBe('No change of this memory is left.');
  server.instead = { POST: () => Response.json({ memory: null }) };
  await user.click(undo());
  await screen.findByText('Undone');
  expect(screen.queryByRole('alert')).toBeNull();
});

it('shows what a text hides', () => {
  render(<MemoryChanges message={message({ saved: [{ ...celsius, text: 'likes\u202e tea' }] })} />);
  expect(screen.getByRole('listitem').textContent).toContain('likes[U+202E] tea');
});

it.each([
  ['remember', { saved: celsius }, { saved: [celsius] }, true],
  ['remember', { changed: bern }, { changed: [bern] }, true],
  ['forget', { forgotten: bern }, { forgotten: [celsius, bern] }, true],
  ['remember', { saved: celsius }, { saved: [bern] }, false],
  ['remember', { known: celsius }, { saved: [celsius] }, false],
  ['recall', { saved: celsius }, { saved: [celsius] }, false],
  ['remember', 'saved', { saved: [celsius] }, false],
])('of %s with %j, told as %j: its card need not say it again: %s', (name, output, data, isTold) => {
  const part = call('c', name, 'output-available', { output });
  expect(isToldAsMemory(part, message(data, part), OWN)).toBe(isTold);
  expect(isToldAsMemory(part, message(data, part), undefined)).toBe(false);
});

it('is not told as memory before it is done', () => {
  const part = call('c', 'remember', 'approval-requested', { output: { saved: celsius } });
  expect(isToldAsMemory(part, message({ saved: [celsius] }, part), OWN)).toBe(false);
});

it('has a card that does not repeat what was saved, and tells it when it is opened', async () => {
  const part = call('c', 'remember', 'output-available', {
    input: { text: 'prefers Celsius' },
    output: { saved: celsius },
  });
  const user = userEvent.setup();
  render(<StepView parts={[part]} message={message({ saved: [celsius] }, part)} chat={fakeChat()} />);
  const card = screen.getByRole('article', { name: 'Tool call remember' });
  expect(card.textContent).not.toContain('prefers Celsius');
  await user.click(screen.getByRole('button', { name: 'Details of remember' }));
  expect(card.textContent).toContain('prefers Celsius');
});
