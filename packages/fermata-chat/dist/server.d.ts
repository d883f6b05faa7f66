/** Where a server is, and what every request to it has. */
export interface ServerOptions {
    /** The path or URL of the chat endpoint; `/api/chat` by default. */
    api?: string;
    /** Headers of every request, such as `authorization`. */
    headers?: Record<string, string> | (() => Record<string, string>);
    /** Used instead of the global `fetch`. */
    fetch?: typeof fetch;
}
/** A request that the server refused. Its message can be shown to a person. */
export declare class FermataError extends Error {
    readonly name = "FermataError";
    /** The HTTP status. */
    readonly status: number;
    /** What went wrong, such as `already_answered`. */
    readonly code: string;
    constructor(status: number, code: string, detail: string);
}
export declare class Server {
    #private;
    readonly api: string;
    constructor(options: ServerOptions);
    chatUrl(chatId: string, path?: string): string;
    /** Asks for JSON; throws a `FermataError` if the server refuses. */
    json<T>(url: string, init?: RequestInit): Promise<T>;
    /** Posts a chat. The server has done nothing if it answers 503, so then the same is posted again. */
    post(body: object, headers: Record<string, string>, signal: AbortSignal): Promise<Response>;
    /**
     * Asks for the stream of a chat's open run, from its beginning or after a position, for as long as it takes
     * until the server answers; `undefined` if there is none.
     */
    openStream(chatId: string, position: string | undefined, signal: AbortSignal, onRetry: () => void): Promise<ReadableStream<Uint8Array> | undefined>;
    fetch(url: string, init?: RequestInit): Promise<Response>;
}
/** Does something that is harmless when it is done twice, until it succeeds or is refused. */
export declare function retry<T>(what: () => Promise<T>, goesOn?: (attempt: number) => boolean): Promise<T>;
/** Waits before the next attempt: longer each time, but no longer than until the network is back. */
export declare function pause(attempt: number, signal?: AbortSignal): Promise<void>;
/** Reads a problem document (RFC 9457), or whatever a proxy says instead. */
export declare function refusalOf(response: Response): Promise<FermataError>;
/** Whether an answer was refused because of what it says. */
export declare const isInvalid: (error: unknown) => error is FermataError;
/** Whether an answer was refused because nobody waits for it any more. */
export declare const isSettledElsewhere: (error: unknown) => boolean;
//# sourceMappingURL=server.d.ts.map