import { Chat, useChat } from '@ai-sdk/react';
import type { ChatInit, UIMessage } from 'ai';
import { type FermataChat, type FermataOptions } from './index.js';
export * from './index.js';
export interface FermataChatOptions<MESSAGE extends UIMessage = UIMessage> extends Omit<FermataOptions, 'onConnection' | 'tools'>, Omit<ChatInit<MESSAGE>, 'id' | 'transport' | 'sendAutomaticallyWhen'> {
    /** Which chat. Another id is another chat. */
    id: string;
    /** The page's tools, by name. Those of the latest rendering are used. */
    tools?: Exclude<FermataOptions['tools'], (chatId: string) => unknown>;
    /** Whether the page has made up the id, and nobody has posted to it yet: then the server is not asked for it. */
    isNew?: boolean;
    /** At most one rendering in so many milliseconds while a message streams. */
    throttle?: number;
}
type Stock<MESSAGE extends UIMessage> = ReturnType<typeof useChat<MESSAGE>>;
/** What `useChat` gives, and what only a chat of Fermata can do. */
export type UseFermataChat<MESSAGE extends UIMessage = UIMessage> = Omit<Stock<MESSAGE>, keyof FermataChat | 'addToolResult'> & Omit<FermataChat, 'open'> & {
    /** The chat itself, for components that are given one. */
    chat: Chat<MESSAGE> & FermataChat;
};
/**
 * A chat that loads, resumes, follows other tabs and runs the page's tools.
 *
 * Of the options, `tools`, `headers` and `body` are those of the latest rendering, and the others those of the first
 * one with this `id`.
 */
export declare function useFermataChat<MESSAGE extends UIMessage = UIMessage>(options: FermataChatOptions<MESSAGE>): UseFermataChat<MESSAGE>;
//# sourceMappingURL=react.d.ts.map