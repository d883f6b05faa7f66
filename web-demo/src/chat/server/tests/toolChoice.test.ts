import { beforeEach, expect, test } from 'vitest';
import { choiceBody, choiceOf, chooseNext, lockTool, spendChoice } from '../toolChoice';

let id = '';
let count = 0;

beforeEach(() => {
  localStorage.clear();
  id = `chat-${++count}`;
});

const post = (role: string, chat = id) =>
  JSON.stringify({ id: chat, messages: [{ role: 'user' }, { role }] });

test('a chat without a choice sends none', () => {
  expect(choiceBody(id)).toEqual({});
});

test('a choice for the next message is spent by that message', () => {
  chooseNext(id, 'none');
  expect(choiceBody(id)).toEqual({ toolChoice: 'none' });
  spendChoice(post('user'));
  expect(choiceBody(id)).toEqual({});
});

test('a re-post after an answer, and a message of another chat, leave the choice for the next message', () => {
  chooseNext(id, { type: 'tool', toolName: 'current_time' });
  spendChoice(post('assistant'));
  spendChoice(post('user', 'another'));
  expect(choiceBody(id)).toEqual({ toolChoice: { type: 'tool', toolName: 'current_time' } });
});

test('a lock holds for every message, in its chat alone, until it is released', () => {
  lockTool(id, 'write_note');
  spendChoice(post('user'));
  expect(choiceBody(id)).toEqual({ toolChoice: { type: 'tool', toolName: 'write_note' } });
  expect(choiceBody('another')).toEqual({});
  lockTool(id, undefined);
  expect(choiceBody(id)).toEqual({});
});

test('a choice for the next message goes before the lock, which holds again after it', () => {
  lockTool(id, 'write_note');
  chooseNext(id, 'none');
  expect(choiceBody(id)).toEqual({ toolChoice: 'none' });
  spendChoice(post('user'));
  expect(choiceBody(id)).toEqual({ toolChoice: { type: 'tool', toolName: 'write_note' } });
});

test('a lock is there again when the page is loaded again', () => {
  localStorage.setItem('fermata.lock kept', 'search_notes');
  expect(choiceOf('kept').value).toEqual({ lock: 'search_notes' });
});
