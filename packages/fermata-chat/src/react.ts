// `useChat` for a Fermata server, in one hook.
//
//   const { messages, sendMessage, addToolApprovalResponse, stop, connection } = useFermataChat({ id, tools });

import { Chat, useChat } from '@ai-sdk/react';
import type { ChatInit, UIMessage } from 'ai';
import { useEffect, useState, useSyncExternalStore } from 'react';
import { fermata, type CallStatus, type Connection, type FermataChat, type FermataOptions } from './index.js';

export * from './index.js';

export interface FermataChatOptions<MESSAGE extends UIMessage = UIMessage>
  extends
    Omit<FermataOptions, 'onConnection' | 'tools' | 'assistant' | 'model'>,
    Omit<ChatInit<MESSAGE>, 'id' | 'transport' | 'sendAutomaticallyWhen'> {
  /** Which chat. Another id is another chat. */
  id: string;
  /** The page's tools, by name. Those of the latest rendering are used. */
  tools?: Exclude<FermataOptions['tools'], (chatId: string) => unknown>;
  /** The assistant that answers from the next message on; `undefined` leaves it as the chat has it. */
  assistant?: string | undefined;
  /** The model that answers from the next message on: one of the assistant's. */
  model?: string | undefined;
  /** Whether the page has made up the id, and nobody has posted to it yet: then the server is not asked for it. */
  isNew?: boolean;
  /** At most one rendering in so many milliseconds while a message streams. */
  throttle?: number;
}

type Stock<MESSAGE extends UIMessage> = ReturnType<typeof useChat<MESSAGE>>;

/** What `useChat` gives, and what only a chat of Fermata can do. */
export type UseFermataChat<MESSAGE extends UIMessage = UIMessage> = Omit<
  Stock<MESSAGE>,
  keyof FermataChat | 'addToolResult'
> &
  Omit<FermataChat, 'open'> & {
    /** The chat itself, for components that are given one. */
    chat: Chat<MESSAGE> & FermataChat;
  };

/** A chat, and what React is to be told of it. */
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
 * Of the options, `tools`, `assistant`, `model`, `headers` and `body` are those of the latest rendering, and the others
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
