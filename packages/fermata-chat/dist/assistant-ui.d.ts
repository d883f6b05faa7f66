import { Chat } from '@ai-sdk/react';
import { type AssistantRuntime } from '@assistant-ui/react';
import { useAISDKRuntime } from '@assistant-ui/react-ai-sdk';
import { type UIMessage } from 'ai';
import { type FermataChat, type FermataOptions } from './index.js';
type RuntimeOptions = NonNullable<Parameters<typeof useAISDKRuntime<UIMessage>>[1]>;
export interface FermataRuntimeOptions extends Omit<FermataOptions, 'client' | 'tools'> {
    /** Names of tools that may run again, should the page go away while they run. */
    repeatable?: readonly string[];
    /** The chat that is shown; `undefined` is a new one. */
    threadId?: string | undefined;
    /**
     * Whether an id is one that the page has made up, and nobody has posted to yet: then the server is not
     * asked for it.
     */
    isNew?: (chatId: string) => boolean;
    /** Hears which chat is shown: `undefined` for a new one, until its first message. */
    onThreadIdChange?: ((threadId: string | undefined) => void) | undefined;
    /** At most one rendering in so many milliseconds while a message streams; 30 by default. */
    throttle?: number;
    /**
     * How many messages of a chat assistant-ui has at first, the newest; all of them by default. It has some
     * work with each whenever one grows, which a person feels from a few hundred on.
     */
    newest?: number;
    /** assistant-ui's own options: attachments, suggestions, … */
    runtime?: Omit<RuntimeOptions, 'onRespondToToolApproval' | 'messageRepository'>;
}
/** A chat of Fermata as assistant-ui's threads have it. */
export type AssistantChat = Chat<UIMessage> & FermataChat;
/**
 * The runtime: its threads are the chats of the server.
 *
 * The options of the first rendering hold, but for `threadId` and `onThreadIdChange`.
 */
export declare function useFermataRuntime(options?: FermataRuntimeOptions): AssistantRuntime;
/** The chat of the thread that is shown, for what assistant-ui has no word for. */
export declare function useFermataThread(): AssistantChat | undefined;
/**
 * How many earlier messages of the thread that is shown assistant-ui does not have, and what gives it more:
 * as many as at first.
 */
export declare function useFermataEarlier(): Earlier;
export interface Earlier {
    count: number;
    show: () => void;
}
/** The server's id of a call that assistant-ui shows. */
export declare function toolCallIdOf(shown: string): string;
export {};
//# sourceMappingURL=assistant-ui.d.ts.map