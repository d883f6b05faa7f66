// A call in the words of its tool. Of the server's own tools the page knows the words, so they are in its language.

import type { useTranslation } from 'react-i18next';
import { isRecord } from '../record/isRecord';
import { inOneLine } from '../text/visible';

/** The field of the input that the words of a tool of the server are about. */
const FIELDS = { fetch_url: 'url', search_notes: 'query', web_search: 'query', write_note: 'title' } as const;

const isOwn = (tool: string): tool is keyof typeof FIELDS => Object.hasOwn(FIELDS, tool);

/** `said` is the sentence of the server. A tool of another program may have the same name and say something else. */
export function saidWords(
  said: string,
  tool: string,
  input: unknown,
  t: ReturnType<typeof useTranslation<'cards'>>['t'],
): string {
  const value = isOwn(tool) && isRecord(input) ? input[FIELDS[tool]] : undefined;
  if (!isOwn(tool) || typeof value !== 'string' || !said.includes(value)) return inOneLine(said);
  return t(`said.${tool}`, { value: inOneLine(value) });
}

/** The titles of the server's own tools. */
const TITLES = {
  current_time: 'Tell the time',
  fetch_url: 'Read a page of the web',
  forget: 'Forget',
  recall: 'Recall',
  remember: 'Remember',
  search_notes: 'Search the notes',
  web_search: 'Search the web',
  write_note: 'Write a note',
} as const;

const hasTitle = (tool: string): tool is keyof typeof TITLES => Object.hasOwn(TITLES, tool);

/** A title of a tool, in the page's language if it is that of the server's own tool. */
export function titleWords(
  title: string,
  tool: string,
  t: ReturnType<typeof useTranslation<'cards'>>['t'],
): string {
  return hasTitle(tool) && TITLES[tool] === title ? t(`ownTitle.${tool}`) : inOneLine(title);
}
