// @ts-check
// The judge is judged: the stand-in for a model API finds each fault that the other tests rely on it to find.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { faultsOf } from '../harness/strictness.mjs';

/** @param {string} id */
const call = (id, text = '{}') => ({ id, type: 'function', function: { name: 'look', arguments: text } });
/** @param {string} id */
const result = (id) => ({ role: 'tool', tool_call_id: id, content: 'done' });
const user = { role: 'user', content: 'hello' };
/** @param {...object} calls */
const asks = (...calls) => ({ role: 'assistant', content: null, tool_calls: calls });
/** @param {...object} messages */
const body = (...messages) => ({ model: 'test-model', stream: true, messages });
const schema = { type: 'object', properties: {} };
const tool = { type: 'function', function: { name: 'look', parameters: schema } };

test('a well-formed history has no faults', () => {
  const history = body(
    user,
    asks(call('a'), call('b')),
    result('b'),
    result('a'),
    { role: 'assistant', content: 'ok' },
    user,
  );
  assert.deepEqual(faultsOf({ ...history, tools: [tool] }), []);
});

/** @type {[string, unknown, RegExp][]} */
const FAULTY = [
  ['no body', undefined, /no JSON object/],
  ['no messages', body(), /messages is empty/],
  ['a call without a result', body(user, asks(call('a'))), /a has no result at all/],
  [
    'a result that comes too late',
    body(user, asks(call('a')), user, result('a')),
    /a has no result before message 2/,
  ],
  ['a result twice', body(user, asks(call('a')), result('a'), result('a')), /message 3 is a result of "a"/],
  ['a result of nothing', body(user, result('a')), /no open call/],
  [
    'a call id twice',
    body(user, asks(call('a')), result('a'), asks(call('a')), result('a')),
    /uses the call id a again/,
  ],
  [
    'a call id that is too long',
    body(user, asks(call('a'.repeat(41))), result('a'.repeat(41))),
    /call id "a+"/,
  ],
  ['arguments that are no JSON', body(user, asks(call('a', '{"b":')), result('a')), /no JSON/],
  ['arguments that are no object', body(user, asks(call('a', '[]')), result('a')), /no object/],
  ['an empty list of calls', body(user, asks()), /empty list of calls/],
  ['an empty message', body({ role: 'assistant', content: '' }, user), /message 0 \(assistant\) is empty/],
  ['an unknown role', body({ role: 'function', content: 'x' }), /no role that is known/],
  ['an unknown field', body({ ...user, id: 'x' }), /unknown fields: id/],
  ['two tools of one name', { ...body(user), tools: [tool, tool] }, /two tools are called look/],
  ['no tools in the list', { ...body(user), tools: [] }, /tools is not a list/],
  [
    'a schema of no object',
    { ...body(user), tools: [{ type: 'function', function: { name: 'a', parameters: {} } }] },
    /schema of a/,
  ],
  ['a choice without tools', { ...body(user), tool_choice: 'auto' }, /tool_choice without tools/],
];

for (const [name, faulty, fault] of FAULTY) {
  test(`${name} is a fault`, () => {
    assert.match(faultsOf(faulty).join('\n'), fault);
  });
}
