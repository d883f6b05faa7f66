import { expect, test } from 'vitest';
import { isUnclearReply } from '../reply';

/** As the server names them. */
const CONFIRM = [
  'yes',
  'y',
  'sure',
  'ok',
  'go ahead',
  '确认',
  '好',
  '可以',
  '行',
  '确定',
  '没问题',
  '继续',
  'oui',
  '👍',
];

test.each([
  ['yes', false],
  ['Yes!', false],
  ['yes please', false],
  ['OK, thanks', false],
  ['ＯＫ', false],
  ['go  ahead.', false],
  ['好的', false],
  ['好吧', false],
  ['继续吧', false],
  ['👍', false],
  ['no', false],
  ['no thanks', false],
  ['Don’t', false],
  ['不行', false],
  ['算了', false],
  ['non merci', false],
  ['no, thanks', false],
  ['请继续', false],
  ['ｙｅｓ', false],
  ['𝐲𝐞𝐬', true],
  ['sounds good', true],
  ['not today', true],
  ['make it so', true],
  ['later', true],
  ['嗯嗯', true],
  ['先等一下', true],
  ['好的，但是标题改成 x', true],
  ['yes, but call it tea', true],
  ['why?', false],
  ['is that safe ?', false],
  ['为什么？', false],
  ['لماذا؟', false],
  ['write it to another file with that name', false],
  ['请把标题改成牛奶，然后再把正文写得短一些，最后保存', false],
  ['supercalifragilisticexpialidocious-and-more', false],
  ['first\nsecond', false],
  [' ', false],
] as const)('%j is unclear: %j', (text, isUnclear) => {
  expect(isUnclearReply(text, CONFIRM)).toBe(isUnclear);
});

test('if no word decides about the calls that wait, every short reply is unclear', () => {
  for (const text of ['yes', 'no', '好的', 'later']) expect(isUnclearReply(text), text).toBe(true);
  expect(isUnclearReply('why?')).toBe(false);
});
