// Words that are not sent yet, by chat, kept in the browser.
//
// A tab goes on with its own draft, whatever other tabs write in the same chat. The newest draft of all tabs is kept beside it, for a tab that
// opens the chat later.

import { keep, recall } from '../../state/storage';

/** A message that was sent, and that the server may not have. */
export interface Outgoing {
  id: string;
  text: string;
}

export interface Draft {
  text: string;
  outgoing?: Outgoing;
}

const key = (chatId: string) => `fermata.draft ${chatId}`;
const EMPTY: Draft = { text: '' };

/** The draft of this tab, or else the newest one of all tabs. */
export const draftOf = (chatId: string): Draft =>
  read(recall(key(chatId), 'sessionStorage')) ?? read(recall(key(chatId))) ?? EMPTY;

/** Saves a draft, or removes it if it is empty. A newer draft of another tab stays. */
export function keepDraft(chatId: string, { text, outgoing }: Draft) {
  const before = recall(key(chatId), 'sessionStorage');
  const isEmpty = text.trim() === '' && outgoing === undefined;
  const now = isEmpty ? undefined : JSON.stringify({ text, outgoing });
  if (now === before) return;
  keep(key(chatId), now, 'sessionStorage');
  if (now !== undefined || recall(key(chatId)) === before) keep(key(chatId), now);
}

/** Forgets the drafts of a chat that is deleted. */
export function forgetDraft(chatId: string) {
  keep(key(chatId), undefined, 'sessionStorage');
  keep(key(chatId), undefined);
}

/** The words of a draft, with those that may not have arrived before the others. */
export const wordsOf = ({ text, outgoing }: Draft): string =>
  [outgoing?.text ?? '', text].filter((words) => words.trim() !== '').join('\n\n');

/** The words that are left once the server has the outgoing message. */
export function withoutOutgoing(words: string, { text }: Outgoing): string {
  if (words === text) return '';
  return words.startsWith(`${text}\n\n`) ? words.slice(text.length + 2) : words;
}

function read(kept: string | undefined): Draft | undefined {
  if (kept === undefined) return undefined;
  try {
    const { text, outgoing } = JSON.parse(kept) as Partial<Draft>;
    return { text: text ?? '', ...(outgoing && { outgoing }) };
  } catch {
    return undefined;
  }
}
