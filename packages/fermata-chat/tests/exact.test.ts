import { expect, test } from 'vitest';
import { editedText, isReadExactly } from '../src/exact.js';

const TEXT =
  '{"n":10000000000000000001,"deep":[{"list":[9007199254740993,1,"10000000000000000001"]}],"to":"a","z":-0,"big":1e400,"f":0.30000000000000000001,"one":1.0}';

test.each([
  ['{"n":9007199254740991,"to":"ф\\n","f":0.1}', true],
  [' { "n" : [ 1 ,\n2 ], "a b":" \\" " } ', true],
  ['{"n":9007199254740993}', false],
  ['{"n":10000000000000000001}', false],
  ['[[{"n":-0}]]', false],
  ['{"n":1e400}', false],
  ['{"n":0.30000000000000000001}', false],
  ['{"text":"10000000000000000001 -0 1e400"}', true],
  ['{"2":1,"1":2}', false],
  ['{"__proto__":1}', true],
  ['{', false],
])('whether JavaScript reads %s as it is', (text, isExact) => {
  expect(isReadExactly(text)).toBe(isExact);
});

test('an edit that leaves a field alone never changes it', () => {
  const edited = JSON.parse(TEXT) as { to: string };
  expect(editedText(TEXT, edited)).toBe(TEXT);
  edited.to = 'b';
  expect(editedText(TEXT, edited)).toBe(TEXT.replace('"a"', '"b"'));
});

test('what is edited is written as it is, and a field that is left out stays out', () => {
  const edited = { ...(JSON.parse(TEXT) as object), n: 5, big: undefined, new: ['1', null, undefined, 2] };
  const expected = TEXT.replace('10000000000000000001,"deep"', '5,"deep"').replace(',"big":1e400', '');
  expect(editedText(TEXT, edited)).toBe(expected.replace(/}$/, ',"new":["1",null,null,2]}'));
});

test('items of a list move, as long as none of them is a number that cannot be read', () => {
  expect(editedText('{"a":[1,2.0,3],"n":10000000000000000001}', { a: [2, 3], n: 1e19 })).toBe(
    '{"a":[2,3],"n":10000000000000000001}',
  );
  expect(() => editedText('[1,10000000000000000001]', [1e19])).toThrow(RangeError);
  expect(() => editedText('{"a":9007199254740993}', { a: 9007199254740992, b: 9007199254740992 })).toThrow(
    'inputText',
  );
});

test('names and texts that look like numbers or marks are texts', () => {
  const text = '{"n1":"n2","s":"s\\"1\\\\","1":"2","a\\u0000":[]}';
  expect(editedText(text, JSON.parse(text))).toBe('{"1":"2","n1":"n2","s":"s\\"1\\\\","a\\u0000":[]}');
});
