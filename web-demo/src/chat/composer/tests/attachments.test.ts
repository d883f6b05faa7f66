import { expect, test } from 'vitest';
import { filePart, LARGEST, mediaTypeOf, refusalOf } from '../attachments';

test.each([
  ['image/png', 'a.png', 'image/png'],
  ['text/markdown', 'a.md', 'text/plain'],
  ['application/json', 'a.json', 'text/plain'],
  ['', 'main.rs', 'text/plain'],
  ['video/mp2t', 'page.ts', 'text/plain'],
  ['application/pdf', 'a.pdf', undefined],
  ['', 'a.bin', undefined],
])('%s %s is given to the model as %s', (type, name, mediaType) => {
  expect(mediaTypeOf({ type, name })).toBe(mediaType);
});

test('a file that no model could read, and one that no post could hold, are refused', () => {
  expect(refusalOf({ type: 'application/pdf', name: 'a.pdf', size: 1 })).toBe('refusedType');
  expect(refusalOf({ type: 'image/png', name: 'a.png', size: LARGEST + 1 })).toBe('refusedSize');
  expect(refusalOf({ type: 'image/png', name: 'a.png', size: LARGEST })).toBeUndefined();
});

test('the URL says the same type as the part', async () => {
  const part = await filePart(new File(['fn main() {}'], 'main.rs', { type: 'application/octet-stream' }));
  expect(part).toEqual({
    type: 'file',
    mediaType: 'text/plain',
    filename: 'main.rs',
    url: `data:text/plain;base64,${btoa('fn main() {}')}`,
  });
});
