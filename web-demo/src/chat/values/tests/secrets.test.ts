import { expect, test } from 'vitest';
import { secretFields, speaksOfSecret } from '../secrets';

test.each([
  'password',
  'Enter your Password:',
  'newPassword',
  'passphrase',
  'API_KEY',
  'apiKey',
  'ssh-key',
  'key',
  'access_token',
  'githubToken',
  'client secret',
  'PIN',
  'pin code',
  'cardNumber',
  'Card number',
  'CVV',
  'one-time code',
  'verification_code',
  'ｐａｓｓｗｏｒｄ',
  'pass\u200bword',
  '密码',
  '请输入验证码',
  '银行卡号',
  'API 密钥',
])('speaks of a secret: %s', (text) => {
  expect(speaksOfSecret(text)).toBe(true);
});

test.each([
  'name',
  'Which color?',
  'keyboard',
  'monkey',
  'tokenizer',
  'opinion',
  'shipping',
  'secretary',
  'postcode',
  '颜色',
  '姓名',
])('speaks of none: %s', (text) => {
  expect(speaksOfSecret(text)).toBe(false);
});

test('fields are found by their name, title, description and format, also in one another', () => {
  const properties = {
    a: { type: 'string', title: 'Your password' },
    b: { type: 'string', description: 'The token of your account' },
    c: { type: 'string', format: 'password' },
    d: { type: 'object', properties: { pin: { type: 'integer' } } },
    e: { type: 'array', items: { type: 'object', properties: { secret: { type: 'string' } } } },
    color: { type: 'string' },
  };
  expect(secretFields({ type: 'object', properties })).toEqual(['Your password', 'b', 'c', 'pin', 'secret']);
});
