// What waits in the chats of the person. A stream leaves a long input out, and this list has it.

import type { Pending } from 'fermata-chat';
import { Cell } from '../../state/cell';
import { API, server } from './server';

/** The requests that wait in a chat. */
export interface Waiting {
  pending: Pending[];
}

export const waiting = new Cell<readonly Waiting[]>([]);

let loading: Promise<void> | undefined;

/** Loads the list; while it is being loaded, it is not loaded again. */
export function loadWaiting() {
  loading ??= load().then(
    () => (loading = undefined),
    // The card then shows what the stream has.
    () => (loading = undefined),
  );
}

async function load() {
  const { chats } = await server.request<{ chats: { id: string; pending?: number }[] }>(`${API}s?limit=30`);
  const ids = chats.filter(({ pending = 0 }) => pending > 0).map(({ id }) => id);
  const requests = ids.map((id) => server.request<Waiting>(`${API}/${encodeURIComponent(id)}/pending`));
  waiting.set(await Promise.all(requests));
}
