// One stream of chunks for the AI SDK, read over as many connections as it takes.
//
// Each event of the server has an id, `<run>:<number>`; a connection that breaks is opened again after the last
// one that was read. The chunks are pulled one by one, so when the stream ends, the AI SDK has dealt with all
// that came before.
//
// An instance that ends sends each reader an event that is not of the run's log. Here that is a connection that breaks, of
// which the AI SDK learns nothing. Its stream ends when the run does, or when the record says that nothing more comes.

import type { UIMessageChunk } from 'ai';
import { eventsIn } from './events.js';
import type { ChatRecord } from './record.js';

/** The events of a stream; the last is `ended`. */
export type StreamEvent =
  | { type: 'broke' }
  | { type: 'reconnected' }
  /**
   * `isWhole`: the run itself has ended, and its last chunk was read. `isAborted`: the page wants no more. `outcome`: what became of a run
   * whose end was not read.
   */
  | { type: 'ended'; isWhole: boolean; isAborted: boolean; outcome?: StreamOutcome };

/** The replacement for the rest of a stream: the record and, if it has an open run, the run's stream from its beginning. */
export interface StreamOutcome {
  record: ChatRecord;
  body?: ReadableStream<Uint8Array>;
}

/** The progress of a stream whose connection is lost. */
export interface Lost {
  /** The position in the run's log; `undefined` if nothing of the log has come. */
  position: string | undefined;
  /** `true` if the AI SDK has been given anything. */
  hasBegun: boolean;
  /** `true` if the connection has announced that nothing more can follow. */
  isOver: boolean;
  /** The number of connections in a row that were opened again and brought nothing of the log. */
  vain: number;
}

/** The next connection of a stream; or what there is in its place, as far as that can be known. */
export type Reopened =
  { body: ReadableStream<Uint8Array>; outcome?: undefined } | { body?: undefined; outcome?: StreamOutcome };

export interface StreamOptions {
  first: ReadableStream<Uint8Array>;
  /** After how many milliseconds without a byte a connection counts as broken. */
  silence: number;
  /** Ends the reading; the stream then ends as if it were over. */
  abort: AbortController;
  /** A newer post of the chat, if there is one: whether the server accepts it. The answer that is read then ends here. */
  newerPost: () => Promise<boolean> | undefined;
  /** Opens the next connection, or returns what there is in its place. */
  reopen: (lost: Lost) => Promise<Reopened>;
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
      // The AI SDK could not read a chunk, or wants no more.
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
  const isSuperseded = async () => (await options.newerPost()) === true;
  let outcome: StreamOutcome | undefined;
  try {
    let body = options.first;
    let hasBegun = false;
    for (let vain = 0; ; vain++) {
      const before = reader.position;
      for await (const chunk of reader.read(body)) {
        // Many releases of the AI SDK would add the message a second time, behind the one that was posted.
        if (await isSuperseded()) options.abort.abort();
        if (signal.aborted) break;
        hasBegun = true;
        yield chunk;
      }
      if (reader.isWhole || signal.aborted) break;
      if (await isSuperseded()) {
        options.abort.abort();
        break;
      }
      on({ type: 'broke' });
      const { position } = reader;
      if (position !== before) vain = 0;
      const next = await reopen({ position, hasBegun, isOver: reader.isOver || reader.isReplay, vain });
      if (next.body === undefined) {
        outcome = next.outcome;
        break;
      }
      body = next.body;
      on({ type: 'reconnected' });
    }
    if (!reader.isWhole && !reader.isOver && outcome === undefined && !signal.aborted) onLost?.();
  } finally {
    const ended = { isWhole: reader.isWhole, isAborted: signal.aborted };
    on({ type: 'ended', ...ended, ...(outcome !== undefined && { outcome }) });
  }
  return undefined;
}

/** Takes events apart, so that the rest of a run can come from another connection. */
class RunReader {
  /** The last event of the run's log that was read. Events that are meant for one reader only have no position. */
  position: string | undefined;
  /** `true` if the run's own end was read. The stream of a run that a new message supersedes ends without it. */
  isWhole = false;
  /** `true` if nothing more is to be read. */
  isOver = false;
  /** `true` if the run has come from its beginning again, so that what comes does not follow what was read. */
  isReplay = false;
  readonly #silence: number;
  readonly #signal: AbortSignal;
  #run: string | undefined;

  constructor(silence: number, signal: AbortSignal) {
    this.#silence = silence;
    this.#signal = signal;
  }

  /** Reads until the connection ends, breaks or falls silent. */
  async *read(body: ReadableStream<Uint8Array>): AsyncGenerator<UIMessageChunk, void> {
    for await (const { id, data } of eventsIn(body, this.#silence, this.#signal)) {
      // A reader that cannot take back words that are made again is sent the run from its beginning.
      const isBehind = id !== undefined && numberOf(id) <= numberOf(this.position ?? '');
      if (!this.#belongs(id)) return;
      if (this.#signal.aborted) return;
      if (data === '[DONE]') this.isOver = true;
      else if (data !== undefined) {
        const chunk = JSON.parse(data) as UIMessageChunk;
        if (isFarewell(id, chunk)) return;
        if (chunk.type === 'start' && isBehind) {
          this.isReplay = true;
          return;
        }
        // After the last chunk the server ends the connection, which can then be used again.
        if (chunk.type === 'finish' || chunk.type === 'error') this.isWhole = true;
        yield chunk;
      }
    }
  }

  /** Notes where the event stands; false if the connection has come to belong to another run. */
  #belongs(id: string | undefined): boolean {
    const [run] = id?.split(':') ?? [];
    this.#run ??= run;
    if (run !== undefined && run !== this.#run) {
      this.isOver = true;
      return false;
    }
    if (id !== undefined && !isForOneReader(id)) this.position = id;
    return true;
  }
}

/** Returns `true` if an event is meant for one reader, and is not of the run's log. */
const isForOneReader = (id: string): boolean => id.slice(id.indexOf(':')).includes('.');

/** The place of an event in the run's log. */
const numberOf = (id: string): number => Number(id.slice(id.indexOf(':') + 1).split('.')[0] || -1);

/** Returns `true` if an event only says that the instance dismisses this reader. The run goes on elsewhere, or after a restart. */
const isFarewell = (id: string | undefined, chunk: UIMessageChunk): boolean =>
  (chunk.type === 'error' && id !== undefined && isForOneReader(id)) ||
  (chunk.type === 'finish' && 'finishReason' in chunk && (chunk.finishReason as string) === 'interrupted');
