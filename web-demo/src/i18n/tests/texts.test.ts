import { expect, test } from 'vitest';
import { closest, localeOf } from '../language';
import { resources } from '..';

type Texts = string | { [key: string]: Texts } | Texts[];

/** Every text by its path, with the places that are filled in. */
function flat(texts: Texts, path: string, into = new Map<string, string[]>()) {
  if (typeof texts === 'string')
    into.set(path, [...texts.matchAll(/\{\{(\w+)\}\}/g)].map(([, name]) => name ?? '').sort());
  else for (const [key, inner] of Object.entries(texts)) flat(inner, `${path}.${key}`, into);
  return into;
}

const { en = {}, zh = {} } = resources() as Record<string, Record<string, Texts>>;

test('there are texts', () => {
  expect(Object.keys(en)).toContain('shell');
  expect(flat(en['shell'] ?? {}, 'shell').size).toBeGreaterThan(50);
});

test('both languages have the same areas', () => {
  expect(Object.keys(zh).sort()).toEqual(Object.keys(en).sort());
});

test.each(Object.keys(en))(
  '%s has the same texts in both languages, with the same places to fill in',
  (area) => {
    expect(Object.fromEntries(flat(zh[area] ?? {}, area))).toEqual(
      Object.fromEntries(flat(en[area] ?? {}, area)),
    );
  },
);

test.each(Object.keys(en))('no text of %s is empty', (area) => {
  for (const [path, text] of [...texts(en[area], area), ...texts(zh[area], area)])
    expect(text.trim(), path).not.toBe('');
});

function texts(inner: Texts | undefined, path: string): [string, string][] {
  if (inner === undefined) return [];
  if (typeof inner === 'string') return [[path, inner]];
  return Object.entries(inner).flatMap(([key, value]) => texts(value, `${path}.${key}`));
}

test.each([
  [['zh-TW', 'en'], 'zh'],
  [['de-CH', 'zh'], 'zh'],
  [['en-GB'], 'en'],
  [['fr'], 'en'],
  [[], 'en'],
])('who reads %s is spoken to in %s', (tags, language) => {
  expect(closest(tags)).toBe(language);
});

test('times are written as the person is used to', () => {
  expect(localeOf('en', ['de-CH', 'en-GB'])).toBe('en-GB');
  expect(localeOf('zh', ['en-GB'])).toBe('zh');
});
