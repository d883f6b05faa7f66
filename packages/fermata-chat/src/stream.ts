// One stream of chunks for the AI SDK, read over as many connections as it takes.
//
// Each event of the server has an id, `<run>:<number>`; a connection that breaks is opened again after the last
// one that was read. The chunks are pulled one by one, so when the stream ends, the AI SDK has dealt with all
// that came before.

import type { UIMessageChunk } from 'ai';

/** What becomes of a stream; the last is `ended`. */
export type StreamEvent =
  | { type: 'broke' }
  | { type: 'reconnected' }
  /** `isWhole`: the run itself has ended, and its last chunk was read. `isAborted`: the page wants no more. */
  | { type: 'ended'; isWhole: boolean; isAborted: boolean };

export interface StreamOptions {
  first: ReadableStream<Uint8Array>;
  /** After how many milliseconds without a byte a connection counts as broken. */
  silence: number;
  /** Ends the reading; the stream then ends as if it were over. */
  abort: AbortController;
  /** A newer post of the chat, if there is one: whether the server accepts it. The answer that is read then ends here. */
  newerPost: () => Promise<boolean> | undefined;
  /** Opens the next connection after a position; `undefined` if the run is over, or waits without a stream. */
  reopen: (position: string) => Promise<ReadableStream<Uint8Array> | undefined>;
  on: (event: StreamEvent) => void;
  /** Called when the stream ends before the run does, and nobody can go on reading; what it throws is its end. */
  onLost?: () => void;
}

export function chunkStream(options: StreamOptions): ReadableStream<UIMessageChunk> {
  const chunks = readChunks(options);
  return new ReadableStream<UIMessageChunk>(
    {
      async pull(controller) {
        const { done, value } = await chunks.next();
        if (done === true) controller.close();
        else controller.enqueue(value);
      },
      // The AI SDK could not read what it was told, or wants no more.
      async cancel() {
        options.abort.abort();
        await chunks.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
}

async function* readChunks(options: StreamOptions): AsyncGenerator<UIMessageChunk, undefined> {
  const { silence, reopen, on, onLost } = options;
  const { signal } = options.abort;
  const reader = new RunReader(silence, signal);
  try {
    let body: ReadableStream<Uint8Array> | undefined = options.first;
    while (body !== undefined) {
      for await (const chunk of reader.read(body)) {
        // Many releases of the AI SDK would add the message a second time, behind the one that was posted.
        if ((await options.newerPost()) === true) options.abort.abort();
        if (signal.aborted) break;
        yield chunk;
      }
      // Without a position, all would come again, and some versions of the AI SDK would add it to what they have.
      if (reader.isOver || signal.aborted || reader.position === undefined) break;
      on({ type: 'broke' });
      body = await reopen(reader.position);
      if (body !== undefined) on({ type: 'reconnected' });
    }
    if (!reader.isWhole && !reader.isOver && !signal.aborted) onLost?.();
  } finally {
    on({ type: 'ended', isWhole: reader.isWhole, isAborted: signal.aborted });
  }
  return undefined;
}

/** Takes events apart, so that the rest of a run can come from another connection. */
class RunReader {
  /** The last event of the run's log that was read. Events that are meant for one reader only have no position. */
  position: string | undefined;
  /** Whether the run's own end was read. The stream of a run that a new message supersedes ends without it. */
  isWhole = false;
  /** Whether nothing more is to be read. */
  isOver = false;
  readonly #silence: number;
  readonly #signal: AbortSignal;
  #run: string | undefined;

  constructor(silence: number, signal: AbortSignal) {
    this.#silence = silence;
    this.#signal = signal;
  }

  /** Reads until the connection ends, breaks or falls silent. */
  async *read(body: ReadableStream<Uint8Array>): AsyncGenerator<UIMessageChunk, void> {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    const cancel = () => void reader.cancel().catch(() => undefined);
    if (this.#signal.aborted) cancel();
    this.#signal.addEventListener('abort', cancel);
    let rest = '';
    try {
      for (;;) {
        const piece = await inTime(reader.read(), this.#silence).catch(() => undefined);
        if (piece === undefined || piece.done) return;
        const events = (rest + decoder.decode(piece.value, { stream: true })).split('\n\n');
        rest = events.pop() ?? '';
        for (const event of events) {
          if (!this.#belongs(event)) return;
          const chunk = this.#take(event);
          if (this.#signal.aborted) return;
          // After the last chunk the server ends the connection, which can then be used again.
          if (chunk !== undefined) yield chunk;
        }
      }
    } finally {
      this.#signal.removeEventListener('abort', cancel);
      cancel();
    }
  }

  /** Notes where the event stands; false if the connection has come to belong to another run. */
  #belongs(event: string): boolean {
    const id = /^id: ?(.*)$/m.exec(event)?.[1];
    const [run, number] = id?.split(':') ?? [];
    this.#run ??= run;
    if (run !== undefined && run !== this.#run) {
      this.isOver = true;
      return false;
    }
    if (number !== undefined && !number.includes('.')) this.position = id;
    return true;
  }

  #take(event: string): UIMessageChunk | undefined {
    const data = /^data: ?(.*)$/m.exec(event)?.[1];
    if (data === undefined) return undefined;
    if (data === '[DONE]') {
      this.isOver = true;
      return undefined;
    }
    const chunk = JSON.parse(data) as UIMessageChunk;
    if (chunk.type === 'finish' || chunk.type === 'error') {
      // A run that was interrupted goes on elsewhere, or after the next start of its server.
      this.isWhole = !('finishReason' in chunk && (chunk.finishReason as string) === 'interrupted');
      this.isOver = true;
    }
    return chunk;
  }
}

/** What a promise gives, or `undefined` if that takes too long. */
async function inTime<T>(promise: Promise<T>, longest: number): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, longest, undefined);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
