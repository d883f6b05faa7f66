import { expect, test } from 'vitest';
import { withFirstPage, withNextPage, type Chats, type ListedChat } from '../chats';

const chat = (id: string, hour: number): ListedChat => {
  const time = `2026-01-01T${String(hour).padStart(2, '0')}:00:00Z`;
  return { id, title: id, createdAt: time, updatedAt: time };
};
const ids = ({ chats }: Chats) => chats.map(({ id }) => id).join('');
const known: Chats = {
  state: 'known',
  chats: [chat('d', 14), chat('c', 13), chat('b', 12), chat('a', 11)],
  next: 'after-a',
};

test('a chat in which something happened moves to the top, and is there once', () => {
  const fresh = withFirstPage(known, { chats: [chat('a', 15), chat('d', 14)], next: 'after-d' });
  expect(ids(fresh)).toBe('adcb');
  expect(fresh.next).toBe('after-a');
});

test('a chat that was deleted elsewhere goes', () => {
  expect(ids(withFirstPage(known, { chats: [chat('d', 14), chat('b', 12)], next: 'after-b' }))).toBe('dba');
});

test('a first page that is the last one is all there is', () => {
  const fresh = withFirstPage(known, { chats: [chat('d', 14)] });
  expect(ids(fresh)).toBe('d');
  expect(fresh.next).toBeUndefined();
});

test('older chats come after those that are known, and the last page has no next one', () => {
  const more = withNextPage(known, { chats: [chat('a', 11), chat('z', 10)] });
  expect(ids(more)).toBe('dcbaz');
  expect(more.next).toBeUndefined();
});
