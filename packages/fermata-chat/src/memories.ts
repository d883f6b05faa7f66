// Memories: what the server keeps of a person across all chats, and what a run has done with it.

import type { UIMessage } from 'ai';
import type { Server } from './server.js';

export type MemoryKind = 'preference' | 'fact' | 'entity' | 'instruction';

/** A memory. */
export interface Memory {
  id: string;
  kind: MemoryKind;
  text: string;
  /** The name of the one thing that it says, such as `timezone`. The model receives a memory with a slot in every run. */
  slot?: string;
  /** `true` if it is never deleted to make room for others. */
  pinned: boolean;
  /** The chat where the person said it, if it comes from one. */
  chatId?: string;
  /** The message of that chat. */
  messageId?: string;
  /** The last writer; absent if a server of an earlier version did not note it. */
  origin?: MemoryOrigin;
  createdAt: string;
}

/** The writer of a memory. `read` lists the outside sources that the model had read before, such as the URL of a page. */
export type MemoryOrigin =
  { by: 'person' } | { by: 'tool'; tool: string; toolCallId: string; read?: string[] } | { by: 'summary' };

/** A memory to be saved. One with a slot replaces the memory that has it. */
export interface NewMemory {
  text: string;
  /** `fact` by default. */
  kind?: MemoryKind;
  slot?: string;
  pinned?: boolean;
}

/** New parts of a memory; what is left out stays. */
export interface MemoryChange {
  text?: string;
  kind?: MemoryKind;
  /** `null` takes the slot away. */
  slot?: string | null;
  pinned?: boolean;
}

/** Which memories are listed. */
export interface MemoryFilter {
  /** Words, or a question: the memories that have to do with it. */
  query?: string;
  kind?: MemoryKind;
}

/** A part of a list, newest first. */
export interface MemoryPage {
  memories: Memory[];
  /** The `before` of the next page; absent at the end. */
  next?: string;
}

/** The memories of the person whom the requests' headers name. */
export interface Memories {
  list(filter?: MemoryFilter & { limit?: number; before?: string }): Promise<MemoryPage>;
  /** All of a list, for an export: each page is asked for when it is needed. */
  all(filter?: MemoryFilter): AsyncGenerator<Memory, void>;
  add(memory: NewMemory): Promise<Memory>;
  change(id: string, change: MemoryChange): Promise<Memory>;
  forget(id: string): Promise<void>;
  /**
   * Undoes the newest change of a memory, even its deletion. Returns the memory as it is then, or `null` if the
   * change was its creation.
   */
  undo(id: string): Promise<Memory | null>;
  /** Deletes all memories, which cannot be undone. Returns how many there were. */
  forgetAll(): Promise<number>;
}

/** A memory as a message tells of it. */
export type MentionedMemory = Pick<Memory, 'id' | 'kind' | 'text' | 'slot'>;

/** The uses and changes of memories in a run: the part `data-memory` of its message. */
export interface MemoryUse {
  /** The memories that the model received. */
  recalled: MentionedMemory[];
  saved: MentionedMemory[];
  changed: MentionedMemory[];
  forgotten: MentionedMemory[];
}

/** The memories that a page of an export asks for. */
const PAGE = 100;

export function memoriesOf(server: Server): Memories {
  const root = server.beside('memories');
  const url = (id: string, path = '') => `${root}/${encodeURIComponent(id)}${path}`;
  const memories: Memories = {
    list: ({ query, kind, limit, before } = {}) => {
      const search = new URLSearchParams();
      if (query !== undefined && query !== '') search.set('query', query);
      if (kind !== undefined) search.set('kind', kind);
      if (limit !== undefined) search.set('limit', String(limit));
      if (before !== undefined) search.set('before', before);
      const given = search.toString();
      return server.json(given === '' ? root : `${root}?${given}`);
    },
    all: async function* (filter) {
      let before: string | undefined;
      do {
        const page = await memories.list({ ...filter, limit: PAGE, ...(before !== undefined && { before }) });
        yield* page.memories;
        before = page.next;
      } while (before !== undefined);
    },
    add: (memory) => server.json(root, { method: 'POST', body: JSON.stringify(memory) }),
    change: (id, change) => server.json(url(id), { method: 'PATCH', body: JSON.stringify(change) }),
    forget: (id) => server.json(url(id), { method: 'DELETE' }),
    undo: async (id) => {
      const { memory } = await server.json<{ memory: Memory | null }>(url(id, '/undo'), { method: 'POST' });
      return memory;
    },
    forgetAll: async () => {
      const { deleted } = await server.json<{ deleted: number }>(root, { method: 'DELETE' });
      return deleted;
    },
  };
  return memories;
}

/**
 * The uses and changes of memories in the run of a message; `undefined` if the message does not say, because nothing was
 * done or the post did not ask for it (`show`).
 */
export function memoryOf(message: Pick<UIMessage, 'parts'>): MemoryUse | undefined {
  const part = message.parts.findLast(({ type }) => type === 'data-memory');
  if (part === undefined || !('data' in part)) return undefined;
  const use = part.data as Partial<Record<keyof MemoryUse, unknown>> | null;
  return {
    recalled: mentioned(use?.recalled),
    saved: mentioned(use?.saved),
    changed: mentioned(use?.changed),
    forgotten: mentioned(use?.forgotten),
  };
}

/** Leaves out what is no memory, because a message may come from a history that somebody else has written. */
function mentioned(list: unknown): MentionedMemory[] {
  if (!Array.isArray(list)) return [];
  return (list as unknown[]).filter((one): one is MentionedMemory => {
    if (typeof one !== 'object' || one === null) return false;
    const { id, text } = one as Record<string, unknown>;
    return typeof id === 'string' && typeof text === 'string';
  });
}
