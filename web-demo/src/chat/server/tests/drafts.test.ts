import { beforeEach, expect, test } from 'vitest';
import { draftOf, forgetDraft, keepDraft, withoutOutgoing, wordsOf } from '../drafts';

beforeEach(() => {
  localStorage.clear();
  sessionStorage.clear();
});

/** What a tab does: it has a session storage of its own. */
function tab() {
  let own: Record<string, string> = {};
  return <T>(act: () => T): T => {
    sessionStorage.clear();
    for (const [key, value] of Object.entries(own)) sessionStorage.setItem(key, value);
    const result = act();
    own = Object.fromEntries(Object.entries(sessionStorage));
    return result;
  };
}

test('each chat has its own draft, and an empty one is forgotten', () => {
  keepDraft('a', { text: 'half a thought' });
  keepDraft('b', { text: 'another' });
  expect([draftOf('a').text, draftOf('b').text, draftOf('c').text]).toEqual([
    'half a thought',
    'another',
    '',
  ]);
  keepDraft('a', { text: ' ' });
  expect(draftOf('a').text).toBe('');
  forgetDraft('b');
  expect(localStorage).toHaveLength(0);
});

test('two tabs of a chat keep a draft each, and the newest is there after both are closed', () => {
  const [first, second, later] = [tab(), tab(), tab()];
  first(() => {
    keepDraft('a', { text: 'of the first' });
  });
  expect(second(() => draftOf('a').text)).toBe('of the first');
  second(() => {
    keepDraft('a', { text: 'of the second' });
  });
  expect(first(() => draftOf('a').text)).toBe('of the first');
  // The first one sends its words, which are not those that are kept for others.
  first(() => {
    keepDraft('a', { text: '' });
  });
  expect(later(() => draftOf('a').text)).toBe('of the second');
  second(() => {
    keepDraft('a', { text: '' });
  });
  expect(tab()(() => draftOf('a').text)).toBe('');
});

test('words on their way come back before those written since, and go once they have arrived', () => {
  const outgoing = { id: 'u1', text: 'hello' };
  keepDraft('a', { text: 'and', outgoing });
  const words = wordsOf(draftOf('a'));
  expect(words).toBe('hello\n\nand');
  expect(withoutOutgoing(words, outgoing)).toBe('and');
  expect(withoutOutgoing('hello', outgoing)).toBe('');
  expect(withoutOutgoing('hello world', outgoing)).toBe('hello world');
});

test('something else in the storage is no draft', () => {
  localStorage.setItem('fermata.draft a', '{');
  expect(draftOf('a').text).toBe('');
});
