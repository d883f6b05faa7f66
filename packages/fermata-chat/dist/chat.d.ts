import type { ChatInit, UIMessage } from 'ai';
import { type Connection, type FermataOptions } from './transport.js';
export interface ToolOutput {
    tool: string;
    toolCallId: string;
    state?: 'output-available' | 'output-error';
    output?: unknown;
    errorText?: string;
}
export interface ApprovalResponse {
    /** The approval's id. */
    id: string;
    approved: boolean;
    reason?: string;
    /** Also for later calls of this tool in this chat. */
    always?: boolean;
    /** The input to run instead of the model's. */
    input?: unknown;
}
export interface ElicitationAnswer {
    elicitationId: string;
    action: 'accept' | 'decline' | 'cancel';
    content?: Record<string, unknown>;
}
/** What a chat of Fermata can do besides what the AI SDK's can. */
export interface FermataChat {
    /**
     * Shows the chat as the server has it, follows what goes on in it, and keeps doing so. Returns what ends
     * that. A chat that `isNew` has nothing to be loaded before its first message.
     */
    open: (options?: {
        isNew?: boolean;
    }) => () => void;
    /**
     * Loads the chat, and follows its open run; a message that was not sent comes back after it. Done when that
     * run is over, or its stream was let go.
     */
    refresh: () => Promise<void>;
    addToolOutput: (output: ToolOutput) => Promise<void>;
    addToolApprovalResponse: (response: ApprovalResponse) => Promise<void>;
    answerElicitation: (answer: ElicitationAnswer) => Promise<void>;
    /** Ends the run, also one that only waits. Rejects if the server cannot be told; the run is then followed again. */
    stop: () => Promise<void>;
    readonly connection: Connection;
}
/** Follows one chat. */
export declare class ChatFollower {
    #private;
    constructor(options: FermataOptions, id: string);
    /** What a `Chat` is constructed with. */
    init<MESSAGE extends UIMessage>(given: ChatInit<MESSAGE>): Partial<ChatInit<MESSAGE>>;
    attach<CHAT extends object>(chat: CHAT): CHAT & FermataChat;
}
//# sourceMappingURL=chat.d.ts.map