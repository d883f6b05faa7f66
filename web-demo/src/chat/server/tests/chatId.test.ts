import { expect, test } from 'vitest';
import { chatUrl, isChatId, newChatId } from '../chatId';

test('a new id is one that the server takes, and new', () => {
  const ids = Array.from({ length: 50 }, () => newChatId());
  expect(ids.every(isChatId)).toBe(true);
  expect(new Set(ids).size).toBe(50);
});

test('a page that did not come over https makes ids, too', () => {
  const source = { getRandomValues: crypto.getRandomValues.bind(crypto) };
  const ids = Array.from({ length: 50 }, () => newChatId(source));
  expect(ids.every((id) => /^[0-9a-f]{32}$/.test(id))).toBe(true);
  expect(new Set(ids).size).toBe(50);
});

test.each(['', 'a b', 'a/b', 'ä', 'x'.repeat(129), null])('%s is no id', (text) => {
  expect(isChatId(text)).toBe(false);
});

test('a URL names the page and the chat', () => {
  expect(chatUrl('a:b', '/assistant-ui')).toBe('/assistant-ui?chat=a%3Ab');
});
