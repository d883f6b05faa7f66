// Whether somebody is asked for a secret, by what the question and its fields are called. Knows words of
// English and Chinese; it is a reason to warn, and no proof of anything.

import { isRecord } from '../record/isRecord';
import type { Schema } from './schemaFields';

const ENGLISH =
  /\b(pass ?words?|passwd|pwd|pass ?phrases?|pass ?codes?|pins?|otp|totp|tokens?|secrets?|credentials?|keys?|apikeys?|cvv|cvc|ssn|social security|iban|(card|account) ?(number|no)|cardnumber|(security|verification|one time|auth(entication)?|login|recovery|backup) codes?|seed phrase|mnemonic)\b/i;
const CHINESE =
  /密码|密碼|口令|令牌|密钥|密鑰|秘钥|私钥|卡号|卡號|银行卡|信用卡|验证码|驗證碼|安全码|身份证|身份證|助记词|账号密码|凭证|凭据/;

/** The words of a name such as `apiKey`, `API_KEY` or `one-time code`. */
const wordsOf = (name: string): string =>
  name
    .replace(/([a-z\d])([A-Z])/g, '$1 $2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .replace(/[_\-.:/]+/g, ' ');

/** Returns `true` if a text speaks of a secret. */
export function speaksOfSecret(text: string): boolean {
  const plain = text.normalize('NFKC').replace(/\p{Default_Ignorable_Code_Point}/gu, '');
  return ENGLISH.test(wordsOf(plain)) || CHINESE.test(plain);
}

/** The fields of a form that seem to ask for a secret, by what they are called. */
export function secretFields(schema: Schema, depth = 0): string[] {
  const { properties, items } = schema;
  if (depth > 8) return [];
  const inner = isRecord(items) ? secretFields(items, depth + 1) : [];
  if (!isRecord(properties)) return inner;
  return Object.entries(properties).reduce((found, [name, field]) => {
    if (!isRecord(field)) return found;
    const { title, description, format } = field;
    const said = [name, title, description].filter((text) => typeof text === 'string');
    const isSecret = format === 'password' || said.some(speaksOfSecret);
    return [
      ...found,
      ...(isSecret ? [typeof title === 'string' ? title : name] : []),
      ...secretFields(field, depth + 1),
    ];
  }, inner);
}
