// `useChat` for a Fermata server, in one hook.
//
//   const { messages, sendMessage, addToolApprovalResponse, stop, connection } = useFermataChat({ id, tools });

import { Chat, useChat } from '@ai-sdk/react';
import type { ChatInit, UIMessage } from 'ai';
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import {
  ApprovalInbox,
  fermata,
  type Approvals,
  type Assistant,
  type CallStatus,
  type ChatSummary,
  type Chosen,
  type Connection,
  type ContextUsage,
  type Fermata,
  type FermataChat,
  type FermataOptions,
  type GivenBack,
  type Inbox,
  type Memories,
  type Memory,
  type MemoryFilter,
  type RunStatus,
  type Unsent,
} from './index.js';

export * from './index.js';

export interface FermataChatOptions<MESSAGE extends UIMessage = UIMessage>
  extends
    Omit<FermataOptions, 'onConnection' | 'tools' | 'assistant' | 'model' | 'memory'>,
    Omit<ChatInit<MESSAGE>, 'id' | 'transport' | 'sendAutomaticallyWhen'> {
  /** Which chat. Another id is another chat. */
  id: string;
  /** The page's tools, by name. Those of the latest rendering are used. */
  tools?: Exclude<FermataOptions['tools'], (chatId: string) => unknown>;
  /** The assistant that answers from the next message on; `undefined` leaves it as the chat has it. */
  assistant?: string | undefined;
  /** The model that answers from the next message on: one of the assistant's. */
  model?: string | undefined;
  /** `false` leaves the posts out of memory from now on. */
  memory?: boolean | undefined;
  /** `true` if the page has made up the id, and nobody has posted to it yet: then the server is not asked for it. */
  isNew?: boolean;
  /** At most one rendering in so many milliseconds while a message streams. */
  throttle?: number;
}

type Stock<MESSAGE extends UIMessage> = ReturnType<typeof useChat<MESSAGE>>;

/** The result of `useChat`, with the abilities that only a chat of Fermata has. */
export type UseFermataChat<MESSAGE extends UIMessage = UIMessage> = Omit<
  Stock<MESSAGE>,
  keyof FermataChat | 'addToolResult'
> &
  Omit<FermataChat, 'open'> & {
    /** The chat itself, for components that are given one. */
    chat: Chat<MESSAGE> & FermataChat;
  };

/** A chat, and the notices of its changes for React. */
class Session<MESSAGE extends UIMessage> {
  readonly chat: Chat<MESSAGE> & FermataChat;
  #options: FermataChatOptions<MESSAGE>;
  readonly #listeners = new Set<() => void>();

  constructor(options: FermataChatOptions<MESSAGE>) {
    this.#options = options;
    const server = fermata({
      ...options,
      tools: () => this.#options.tools ?? {},
      assistant: () => this.#options.assistant,
      model: () => this.#options.model,
      memory: () => this.#options.memory,
      headers: () => {
        const { headers } = this.#options;
        return (typeof headers === 'function' ? headers() : headers) ?? {};
      },
      body: (chatId) => this.#options.body?.(chatId) ?? {},
      onConnection: () => {
        for (const listener of this.#listeners) listener();
      },
    });
    this.chat = server.chat<MESSAGE, Chat<MESSAGE>>(Chat, options);
  }

  /** Takes over the options of the latest rendering. */
  use(options: FermataChatOptions<MESSAGE>) {
    this.#options = options;
  }

  subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  connection = (): Connection => this.chat.connection;

  open = () => this.chat.open({ isNew: this.#options.isNew === true });
}

/**
 * A chat that loads, resumes, follows other tabs and runs the page's tools.
 *
 * Of the options, `tools`, `assistant`, `model`, `memory`, `headers` and `body` are those of the latest rendering, and the others
 * those of the first one with this `id`.
 */
export function useFermataChat<MESSAGE extends UIMessage = UIMessage>(
  options: FermataChatOptions<MESSAGE>,
): UseFermataChat<MESSAGE> {
  const { id, throttle } = options;
  const [session, setSession] = useState(() => new Session(options));
  if (session.chat.id !== id) setSession(new Session(options));
  useEffect(() => {
    session.use(options);
  });
  useEffect(() => session.open(), [session]);
  const { chat } = session;
  const stock = useChat<MESSAGE>({ chat, ...(throttle !== undefined && { throttle }) });
  const connection = useSyncExternalStore(session.subscribe, session.connection, session.connection);
  return {
    ...stock,
    chat,
    connection,
    refresh: chat.refresh,
    stop: chat.stop,
    addToolOutput: chat.addToolOutput,
    addToolApprovalResponse: chat.addToolApprovalResponse,
    answerElicitation: chat.answerElicitation,
    callStatus: chat.callStatus,
    onCallStatus: chat.onCallStatus,
    contextUsage: chat.contextUsage,
    runStatus: chat.runStatus,
    cancelCall: chat.cancelCall,
    noteEditing: chat.noteEditing,
    previewInput: chat.previewInput,
    retryCall: chat.retryCall,
    deleteMessage: chat.deleteMessage,
    dropPlan: chat.dropPlan,
    summary: chat.summary,
    chosen: chat.chosen,
    unsent: chat.unsent,
    givenBack: chat.givenBack,
    correctSummary: chat.correctSummary,
    compact: chat.compact,
  };
}

/** The state of a call on the server, and what it waits for; `undefined` if no stream has said so yet. */
export function useCallStatus(
  chat: Pick<FermataChat, 'callStatus' | 'onCallStatus'>,
  toolCallId: string,
): CallStatus | undefined {
  const status = () => chat.callStatus(toolCallId);
  return useSyncExternalStore(chat.onCallStatus, status, status);
}

/** The status of the chat's run; `undefined` until the record or a stream reports one. */
export function useRunStatus(chat: Pick<FermataChat, 'runStatus'>): RunStatus | undefined {
  const { subscribe, get } = chat.runStatus;
  return useSyncExternalStore(subscribe, get, get);
}

/** The approvals that wait for the person, and the functions that answer and show them. */
export type UseInbox = Inbox & Pick<ApprovalInbox, 'vote' | 'show' | 'tidy' | 'reload'>;

/** The inbox of the person, kept up to date: `useInbox(server.approvals)`. An inbox without approvals is empty only if its `status` is `live`. */
export function useInbox(approvals: Approvals): UseInbox {
  const inbox = useMemo(() => new ApprovalInbox(approvals), [approvals]);
  useEffect(() => inbox.open(), [inbox]);
  const { subscribe, get } = inbox.contents;
  const contents = useSyncExternalStore(subscribe, get, get);
  return { ...contents, vote: inbox.vote, show: inbox.show, tidy: inbox.tidy, reload: inbox.reload };
}

/** A memory in a list. */
export interface ListedMemory extends Memory {
  /** `true` if it was forgotten here. It stays in its place until the list is loaded again, and `undo` brings it back. */
  isForgotten: boolean;
}

/** A list of memories, as far as it is loaded. */
export type MemoryList =
  | { status: 'loading' }
  | { status: 'failed'; error: Error }
  | { status: 'ready'; memories: ListedMemory[]; hasMore: boolean };

/** A list of memories, and the functions that change it. A refusal of the server is thrown, and changes nothing. */
export interface UseMemories extends Pick<Memories, 'add' | 'change' | 'forget' | 'undo' | 'forgetAll'> {
  list: MemoryList;
  /** Loads the list again, from its beginning. */
  reload: () => Promise<void>;
  /** Loads the next part of the list. */
  loadMore: () => Promise<void>;
}

/**
 * The memories of the person: `useMemories(server.memories, { query: 'tea' })`. While those of another filter are
 * loaded, the list stays as it was.
 */
export function useMemories(memories: Memories, { query, kind }: MemoryFilter = {}): UseMemories {
  const [list, setList] = useState<MemoryList>({ status: 'loading' });
  const [next, setNext] = useState<string>();
  // An answer that comes after a later request was made is of no use.
  const newest = useRef(0);
  const load = useCallback(
    async (before?: string) => {
      const request = ++newest.current;
      const page = await memories.list({
        ...(query !== undefined && { query }),
        ...(kind !== undefined && { kind }),
        ...(before !== undefined && { before }),
      });
      if (request !== newest.current) return;
      const more = page.memories.map((memory) => ({ ...memory, isForgotten: false }));
      setNext(page.next);
      setList((list) => {
        const earlier = before !== undefined && list.status === 'ready' ? list.memories : [];
        // One that was replaced meanwhile is newer than it was.
        const others = more.filter(({ id }) => !earlier.some((one) => one.id === id));
        return { status: 'ready', memories: [...earlier, ...others], hasMore: page.next !== undefined };
      });
    },
    [memories, query, kind],
  );
  const reload = useCallback(async () => {
    const request = newest.current + 1;
    try {
      await load();
    } catch (error) {
      if (request === newest.current) setList({ status: 'failed', error: error as Error });
    }
  }, [load]);
  useEffect(() => {
    void reload();
    return () => {
      newest.current += 1;
    };
  }, [reload]);

  const update = (change: (memories: ListedMemory[]) => ListedMemory[]) => {
    setList((list) => (list.status === 'ready' ? { ...list, memories: change(list.memories) } : list));
  };
  return {
    list,
    reload,
    loadMore: async () => {
      if (next !== undefined) await load(next);
    },
    add: async (memory) => {
      const added = await memories.add(memory);
      update((list) => withMemory(list, added));
      return added;
    },
    change: async (id, change) => {
      const changed = await memories.change(id, change);
      update((list) => withMemory(list, changed));
      return changed;
    },
    forget: async (id) => {
      await memories.forget(id);
      update((list) => list.map((one) => (one.id === id ? { ...one, isForgotten: true } : one)));
    },
    undo: async (id) => {
      const memory = await memories.undo(id);
      update((list) => (memory === null ? list.filter((one) => one.id !== id) : withMemory(list, memory)));
      return memory;
    },
    forgetAll: async () => {
      const count = await memories.forgetAll();
      await reload();
      return count;
    },
  };
}

/** The list with a memory in its place, or at the front if it is new. It leaves no other memory its slot. */
function withMemory(list: readonly ListedMemory[], memory: Memory): ListedMemory[] {
  const listed = { ...memory, isForgotten: false };
  const others = list.filter(
    ({ id, slot }) => id === memory.id || slot === undefined || slot !== memory.slot,
  );
  if (!others.some(({ id }) => id === memory.id)) return [listed, ...others];
  return others.map((one) => (one.id === memory.id ? listed : one));
}

/** The fill of the model's window; `undefined` until the record of the chat or a step reports it. */
export function useContextUsage(chat: Pick<FermataChat, 'contextUsage'>): ContextUsage | undefined {
  const { subscribe, get } = chat.contextUsage;
  return useSyncExternalStore(subscribe, get, get);
}

/** The summary of the earlier messages; `undefined` if the chat has none, or as long as it is not loaded. */
export function useSummary(chat: Pick<FermataChat, 'summary'>): ChatSummary | undefined {
  const { subscribe, get } = chat.summary;
  return useSyncExternalStore(subscribe, get, get);
}

/** The last message of the person, until the server has taken it. */
export function useUnsent(chat: Pick<FermataChat, 'unsent'>): Unsent | undefined {
  const { subscribe, get } = chat.unsent;
  return useSyncExternalStore(subscribe, get, get);
}

/** A message that the server has not taken, with the reason; its words go back to where they were written. */
export function useGivenBack(chat: Pick<FermataChat, 'givenBack'>): GivenBack | undefined {
  const { subscribe, get } = chat.givenBack;
  return useSyncExternalStore(subscribe, get, get);
}

/** The assistant and the model that the chat has chosen. */
export function useChosen(chat: Pick<FermataChat, 'chosen'>): Chosen {
  const { subscribe, get } = chat.chosen;
  return useSyncExternalStore(subscribe, get, get);
}

/** The lists of assistants by server. Each server is asked once. */
const lists = new WeakMap<object, Promise<readonly Assistant[]>>();

/** The assistants of a server (`fermata()`); the list is empty as long as it is not loaded. */
export function useAssistants(server: Pick<Fermata, 'assistants'>): readonly Assistant[] {
  const [list, setList] = useState<readonly Assistant[]>([]);
  useEffect(() => {
    let isLeft = false;
    const loading = lists.get(server) ?? server.assistants();
    lists.set(server, loading);
    loading.then(
      (assistants) => {
        if (!isLeft) setList(assistants);
      },
      () => {
        // The next component that needs the list asks again.
        lists.delete(server);
      },
    );
    return () => {
      isLeft = true;
    };
  }, [server]);
  return list;
}
