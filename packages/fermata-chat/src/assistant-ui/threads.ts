// The thread list: assistant-ui's threads are the chats of the server.

import type { useRemoteThreadListRuntime } from '@assistant-ui/react';
import { generateId, type UIMessage } from 'ai';
import { createAssistantStream } from 'assistant-stream';
import { fermata, FermataError, type Fermata } from '../index.js';
import type { FermataRuntimeOptions } from './options.js';

type ThreadListAdapter = Parameters<typeof useRemoteThreadListRuntime>[0]['adapter'];

interface ListedChat {
  id: string;
  title: string | null;
  updatedAt: string;
}

/** As many characters of the first message as the server's own titles have. */
const TITLE_LENGTH = 80;

const isUnknown = (error: unknown) => error instanceof FermataError && error.code === 'not_found';

/** The chats of the server, as assistant-ui's list of threads. */
export class Threads implements ThreadListAdapter {
  readonly #server: Fermata;
  readonly #api: string;
  /** The ids that chats get which were begun here, by assistant-ui's own. */
  readonly #begun = new Map<string, string>();
  readonly #titles = new Map<string, string>();

  readonly options: FermataRuntimeOptions;

  constructor(options: FermataRuntimeOptions) {
    this.options = options;
    this.#server = fermata(options);
    this.#api = options.api ?? '/api/chat';
  }

  list: ThreadListAdapter['list'] = async (page) => {
    const before = page?.after === undefined ? '' : `&before=${encodeURIComponent(page.after)}`;
    const { chats, next } = await this.#server.request<{ chats: ListedChat[]; next?: string }>(
      `${this.#api}s?limit=50${before}`,
    );
    const threads = chats.map(({ id, title, updatedAt }) => ({
      status: 'regular' as const,
      remoteId: id,
      lastMessageAt: new Date(updatedAt),
      ...(title !== null && { title }),
    }));
    return { threads, ...(next !== undefined && { nextCursor: next }) };
  };

  /**
   * Asks nobody: until this is answered, assistant-ui shows a new thread, and a message that is sent meanwhile
   * would begin a chat of its own. The chat itself is loaded by its `Thread`.
   */
  fetch: ThreadListAdapter['fetch'] = (id) => Promise.resolve({ status: 'regular', remoteId: id });

  initialize: ThreadListAdapter['initialize'] = (threadId) =>
    Promise.resolve({ remoteId: this.idOf(threadId) });

  delete: ThreadListAdapter['delete'] = async (id) => {
    try {
      await this.#server.request(this.#url(id), { method: 'DELETE' });
    } catch (error) {
      // Forgotten already, or the server never had it.
      if (!isUnknown(error)) throw error;
    }
  };

  /** The server's title is the beginning of the first message, which is known here as well. */
  generateTitle: ThreadListAdapter['generateTitle'] = (id, messages) =>
    Promise.resolve(
      createAssistantStream((stream) => {
        const title = this.#titles.get(id) ?? titleOf(messages.find(isOfUser)?.content);
        if (title !== undefined) stream.appendText(title);
      }),
    );

  /** Notes and returns the title of a chat; `undefined` if assistant-ui has no first message of it. */
  noteTitle(id: string, messages: readonly UIMessage[]): string | undefined {
    const title = titleOf(messages.find(isOfUser)?.parts);
    if (title !== undefined) this.#titles.set(id, title);
    return title;
  }

  rename: ThreadListAdapter['rename'] = () =>
    Promise.reject(new Error('A chat keeps the title that it was given by its first message.'));
  archive: ThreadListAdapter['archive'] = () =>
    Promise.reject(new Error('Chats cannot be archived. Delete the chat, or leave it.'));
  unarchive: NonNullable<ThreadListAdapter['unarchive']> = () =>
    Promise.reject(new Error('Chats cannot be archived, so there is none to bring back.'));

  /** The chat's id of a thread that is begun here. */
  idOf(threadId: string): string {
    const id = this.#begun.get(threadId) ?? generateId();
    this.#begun.set(threadId, id);
    return id;
  }

  #url(id: string) {
    return `${this.#api}/${encodeURIComponent(id)}`;
  }
}

const isOfUser = ({ role }: { role: string }) => role === 'user';

/** The beginning of the first message, as the server has it. */
function titleOf(
  first: readonly { readonly type: string; readonly text?: unknown }[] = [],
): string | undefined {
  const texts = first.map((part) =>
    part.type === 'text' && typeof part.text === 'string' ? part.text.trim() : '',
  );
  const characters = Array.from(texts.find((text) => text !== '') ?? '', (character) =>
    /\s/.test(character) ? ' ' : character,
  );
  if (characters.length === 0) return undefined;
  const beginning = characters.slice(0, TITLE_LENGTH).join('');
  return characters.length > TITLE_LENGTH ? `${beginning.trimEnd()}…` : beginning;
}
