// The failed calls that were tried again, each with the id of the call that did. That call is in a later message.

import { createContext, useContext, useState, type ReactNode } from 'react';
import type { UIMessage } from 'ai';
import { isRecord } from '../record/isRecord';

const Retries = createContext<ReadonlyMap<string, string>>(new Map());

/** Returns the id of the call that tried a failed one again, if a message of the provider has it. */
export const useRetriedAs = (toolCallId: string): string | undefined => useContext(Retries).get(toolCallId);

/** Tells the cards below it which calls were tried again. */
export function RetriesProvider({
  messages,
  children,
}: {
  messages: readonly UIMessage[];
  children: ReactNode;
}) {
  const retries = retriesIn(messages);
  // The messages are new objects with every delta. Cards are drawn again only if another call was tried again.
  const [known, setKnown] = useState(retries);
  if (known.size !== retries.size) setKnown(retries);
  return <Retries.Provider value={known}>{children}</Retries.Provider>;
}

function retriesIn(messages: readonly UIMessage[]): ReadonlyMap<string, string> {
  const retries = new Map<string, string>();
  for (const { metadata } of messages) {
    const calls = isRecord(metadata) && isRecord(metadata['calls']) ? metadata['calls'] : {};
    for (const [id, call] of Object.entries(calls))
      if (isRecord(call) && typeof call['retryOf'] === 'string') retries.set(call['retryOf'], id);
  }
  return retries;
}
