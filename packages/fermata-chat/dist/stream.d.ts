import type { UIMessageChunk } from 'ai';
/** What becomes of a stream; the last is `ended`. */
export type StreamEvent = {
    type: 'broke';
} | {
    type: 'reconnected';
}
/** `isWhole`: the run itself has ended, and its last chunk was read. `isAborted`: the page wants no more. */
 | {
    type: 'ended';
    isWhole: boolean;
    isAborted: boolean;
};
export interface StreamOptions {
    first: ReadableStream<Uint8Array>;
    /** After how many milliseconds without a byte a connection counts as broken. */
    silence: number;
    /** Ends the reading; the stream then ends as if it were over. */
    abort: AbortController;
    /** Opens the next connection after a position; `undefined` if the run is over, or was let go. */
    reopen: (position: string) => Promise<ReadableStream<Uint8Array> | undefined>;
    on: (event: StreamEvent) => void;
    /** Called when the stream ends before the run does, and nobody can go on reading; what it throws is its end. */
    onLost?: () => void;
}
export declare function chunkStream(options: StreamOptions): ReadableStream<UIMessageChunk>;
//# sourceMappingURL=stream.d.ts.map