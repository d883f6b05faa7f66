// `useChat` for a Fermata server, in one hook.
//
//   const { messages, sendMessage, addToolApprovalResponse, stop, connection } = useFermataChat({ id, tools });
import { Chat, useChat } from '@ai-sdk/react';
import { useEffect, useState, useSyncExternalStore } from 'react';
import { fermata } from './index.js';
export * from './index.js';
/** A chat, and what React is to be told of it. */
class Session {
    chat;
    #options;
    #listeners = new Set();
    constructor(options) {
        this.#options = options;
        const server = fermata({
            ...options,
            tools: () => this.#options.tools ?? {},
            headers: () => {
                const { headers } = this.#options;
                return (typeof headers === 'function' ? headers() : headers) ?? {};
            },
            body: (chatId) => this.#options.body?.(chatId) ?? {},
            onConnection: () => {
                for (const listener of this.#listeners)
                    listener();
            },
        });
        this.chat = server.chat(Chat, options);
    }
    /** Takes over the options of the latest rendering. */
    use(options) {
        this.#options = options;
    }
    subscribe = (listener) => {
        this.#listeners.add(listener);
        return () => this.#listeners.delete(listener);
    };
    connection = () => this.chat.connection;
    open = () => this.chat.open({ isNew: this.#options.isNew === true });
}
/**
 * A chat that loads, resumes, follows other tabs and runs the page's tools.
 *
 * Of the options, `tools`, `headers` and `body` are those of the latest rendering, and the others those of the first
 * one with this `id`.
 */
export function useFermataChat(options) {
    const { id, throttle } = options;
    const [session, setSession] = useState(() => new Session(options));
    if (session.chat.id !== id)
        setSession(new Session(options));
    useEffect(() => {
        session.use(options);
    });
    useEffect(() => session.open(), [session]);
    const { chat } = session;
    const stock = useChat({ chat, ...(throttle !== undefined && { throttle }) });
    const connection = useSyncExternalStore(session.subscribe, session.connection, session.connection);
    const { refresh, stop, addToolOutput, addToolApprovalResponse, answerElicitation } = chat;
    return {
        ...stock,
        chat,
        connection,
        refresh,
        stop,
        addToolOutput,
        addToolApprovalResponse,
        answerElicitation,
    };
}
//# sourceMappingURL=react.js.map