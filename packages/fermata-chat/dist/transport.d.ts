import type { ChatTransport, UIMessage, UIMessageChunk } from 'ai';
import { Server, type ServerOptions } from './server.js';
import { type StreamEvent } from './stream.js';
/** A tool that this page runs. */
export interface BrowserTool {
    /** What the model is told about it. */
    description?: string;
    /** JSON Schema of its input. */
    inputSchema: object;
    /** Runs a call. What it throws is the call's error. If left out, the page answers with `addToolOutput`. */
    execute?: (input: unknown, call: {
        toolCallId: string;
        signal: AbortSignal;
    }) => unknown;
    /** Whether a call may run again if the page goes away while it runs. */
    repeatable?: boolean;
}
export interface FermataOptions extends ServerOptions {
    /** The version of `ai`, if it is not the one that is installed: `"7.0.173"`, or a major version. */
    client?: string | number;
    /** How long a stream stays open while calls wait, such as `30s`; the server's own setting by default. */
    hold?: string;
    /** More fields of every post: `system`, `toolChoice`, `callSettings`, … */
    body?: (chatId: string) => object;
    /** The page's tools, by name. */
    tools?: Record<string, BrowserTool> | ((chatId: string) => Record<string, BrowserTool>);
    /**
     * How long a connection may be silent before it counts as broken, in milliseconds; the server says something
     * every ten seconds.
     */
    silence?: number;
    /** Called when the connection of a chat changes. */
    onConnection?: (connection: Connection, chatId: string) => void;
}
/** `closed`: no stream is read. `open`: one is. `reconnecting`: it broke, and is being opened again. */
export type Connection = 'closed' | 'open' | 'reconnecting';
/** What becomes of a request of the AI SDK, for whoever looks after the chat. */
export type RequestEvent = {
    type: 'sent';
} | {
    type: 'accepted';
} | {
    type: 'refused';
    error: unknown;
    isAborted: boolean;
} | {
    type: 'resumed';
} | {
    type: 'retrying';
} | StreamEvent;
/** Looks after the chat for which the transport works. */
export interface Observer {
    /** The number of the next request. */
    begin: () => number;
    on: (request: number, event: RequestEvent) => void;
    /** What the AI SDK gets when it asks for the stream: one that was opened before, or an error to be shown. */
    prepared: () => Prepared | undefined;
}
export type Prepared = {
    request: number;
    abort: AbortController;
    body: ReadableStream<Uint8Array>;
} | {
    error: Error;
};
type SendOptions<MESSAGE extends UIMessage> = Parameters<ChatTransport<MESSAGE>['sendMessages']>[0];
/** Only newer versions of the AI SDK end a stream that was resumed. */
type ReconnectOptions<MESSAGE extends UIMessage> = Parameters<ChatTransport<MESSAGE>['reconnectToStream']>[0] & {
    abortSignal?: AbortSignal;
};
export declare class FermataTransport<MESSAGE extends UIMessage = UIMessage> implements ChatTransport<MESSAGE> {
    #private;
    /** The server begins each stream with the whole message that is being written. */
    readonly resumeStreamIsReplay = true;
    readonly server: Server;
    /** Chats that the server has: what was said before in these is no news to it. */
    readonly known: Set<string>;
    constructor(options?: FermataOptions, observer?: Observer);
    tools(chatId: string): Record<string, BrowserTool>;
    sendMessages(options: SendOptions<MESSAGE>): Promise<ReadableStream<UIMessageChunk>>;
    reconnectToStream(options: ReconnectOptions<MESSAGE>): Promise<ReadableStream<UIMessageChunk> | null>;
    /** Asks for the stream of a chat's open run. */
    open(chatId: string, request: number, signal: AbortSignal): Promise<ReadableStream<Uint8Array<ArrayBufferLike>> | undefined>;
    /** Ends the reading of a stream. */
    abortReading(request: number): void;
    /** Ends posts that have no answer yet; whether there was one. */
    abortSending(): boolean;
}
export {};
//# sourceMappingURL=transport.d.ts.map