// What a person has said and the server has perhaps not heard: it stays on the page until it is sent or given up.

import type { UIMessage } from 'ai';

export interface Draft {
  message: UIMessage;
  /** Why it was not sent. There is none if the person has stopped it. */
  error?: Error;
  /** `true` if the page does not show it, because it follows a run. */
  isAside: boolean;
}

/** The person's last message. A stream that is still read may have written behind it. */
export function draftOf(messages: readonly UIMessage[], error?: Error): Draft | undefined {
  const message = messages.findLast(({ role }) => role === 'user');
  return message && { message, isAside: false, ...(error && { error }) };
}

/** Returns `true` if the server has the message. */
export const isDelivered = (message: UIMessage, record: readonly UIMessage[]): boolean =>
  record.some(({ id, parts }) => id === message.id && textOf(parts) === textOf(message.parts));

/** The messages with it at the end; what was said after the message that it edits goes. */
export function withDraft(messages: readonly UIMessage[], { message }: Draft): UIMessage[] {
  const edited = messages.findIndex(({ id }) => id === message.id);
  return [...messages.slice(0, edited < 0 ? undefined : edited), message];
}

const textOf = (parts: UIMessage['parts']) =>
  parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
