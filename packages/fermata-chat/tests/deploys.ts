// A server that is replaced while it answers, and a page in front of it. Nothing here is real but the page: the test decides when the
// model says a word, when connections are cut, and what is refused, on a clock of its own.

import type { ChatStatus, UIMessage } from 'ai';
import { vi } from 'vitest';
import { fermata, FermataTransport, type Connection, type FermataChat } from '../src/index.js';
import { MemoryChat, version } from './world';

/** How a connection ends before its run does. */
export type Cut =
  /** It breaks. */
  | 'broken'
  /** The instance ends, and says so to this reader alone. */
  | 'let go';

interface Chunk {
  type: string;
  [field: string]: unknown;
}

interface Entry {
  position: number;
  chunk: Chunk;
}

interface Reader {
  /** The number of entries that it has been sent, or that it had before. */
  next: number;
  /** The last position of the log that it has. */
  position: number;
  controller: ReadableStreamDefaultController<Uint8Array>;
}

const ID = 'chat-1';
export const CALL = 'call-1';
const EPOCH = 2 ** 32;

/** Whether the tested version is one of its major version's from this release on. */
export function isSince(release: string): boolean {
  const [major = 0, , patch = 0] = version.split('.').map(Number);
  const [sinceMajor = 0, , sincePatch = 0] = release.split('.').map(Number);
  return major > sinceMajor || (major === sinceMajor && patch >= sincePatch);
}

export const knowsReset = isSince('7.0.70');
const knowsInterrupted = isSince('7.0.149');

/** The server: one chat with one run, whose words are numbered and say which attempt of the step they are of. */
export class ReplacedServer {
  readonly requests: string[] = [];
  /** Whether each post and each answer is refused with 503, and each question for a stream, too. */
  isRefusing = false;
  /** What becomes of the next posts: each is lost on its way, or taken without a reply. */
  fates: ('lost' | 'unclear' | 'broken')[] = [];
  /** How many streams are let go at once when they are opened. */
  letsGo = 0;
  /** Whether a reader of lost words that cannot take them back is sent the whole run again, instead of being let go. */
  replays = false;
  isDetached = false;
  isOver = false;
  answers = 0;
  #log: Entry[] = [];
  #readers = new Set<Reader>();
  #user: UIMessage | undefined;
  #attempt = 1;
  #words = 0;
  #isForgotten = false;

  get text() {
    return Array.from({ length: this.#words }, (_, word) => `${this.#attempt}:${word} `).join('');
  }

  get isOpen() {
    return this.#user !== undefined && !this.isOver && !this.isDetached;
  }

  fetch = async (target: string, init: RequestInit = {}): Promise<Response> => {
    const path = target.replace('/api/chat', '').replace(`/${ID}`, '').split('?')[0] ?? '';
    const request = `${init.method ?? 'GET'} ${path}`;
    this.requests.push(request);
    // Nothing is answered at once.
    await new Promise((resolve) => setTimeout(resolve, 5));
    if (init.signal?.aborted === true) throw new DOMException('aborted', 'AbortError');
    return this.#answer(request, init);
  };

  #answer(request: string, init: RequestInit): Response {
    switch (request) {
      case 'GET ':
        return this.#user === undefined
          ? new Response(null, { status: 204 })
          : Response.json({ messages: this.#messages, pending: [], open: this.isOpen });
      case 'POST ': {
        if (this.isRefusing) return refusal();
        const fate = this.fates.shift();
        if (fate === 'lost') throw new TypeError('fetch failed');
        this.#user = (JSON.parse(init.body as string) as { messages: UIMessage[] }).messages.at(-1);
        this.#append(
          { type: 'start', messageId: 'a1' },
          { type: 'start-step' },
          { type: 'text-start', id: 't' },
        );
        if (fate === 'unclear')
          return Response.json({ code: 'unclear', detail: 'Who knows?' }, { status: 504 });
        if (fate === 'broken') throw new TypeError('network error');
        return this.#stream(0);
      }
      case 'GET /stream': {
        if (this.isRefusing) return refusal();
        const after = new Headers(init.headers).get('last-event-id');
        const isRead = after === null || this.#log.at(-1)?.position === positionOf(after);
        if (this.isDetached || this.#isForgotten || (this.isOver && isRead))
          return new Response(null, { status: 204 });
        return this.#stream(after === null ? 0 : positionOf(after));
      }
      case 'POST /tool-result':
        if (this.isRefusing) return refusal();
        this.answers++;
        if (this.isDetached) this.isDetached = false;
        return Response.json({ calls: [{ toolCallId: CALL, state: 'scheduled', waitingFor: [] }] });
      default:
        throw new Error(`the page asked for ${request}`);
    }
  }

  get #messages(): UIMessage[] {
    const user = this.#user === undefined ? [] : [this.#user];
    if (this.isOpen) return user;
    const text = { type: 'text', text: this.text, state: 'done' } as const;
    const metadata = this.isOver ? { metadata: { ending: 'finished' } } : {};
    return [...user, { id: 'a1', role: 'assistant', parts: [{ type: 'step-start' }, text], ...metadata }];
  }

  #stream(position: number): Response {
    const read = this.#log.filter((entry) => entry.position <= position).length;
    let reader: Reader | undefined;
    const body = new ReadableStream<Uint8Array>({
      cancel: () => {
        if (reader !== undefined) this.#readers.delete(reader);
      },
      start: (controller) => {
        reader = { next: read, position, controller };
        this.#readers.add(reader);
        // Words that were lost are taken back, where the version knows how to.
        const lost = position > 0 && this.#log[read - 1]?.position !== position;
        if (lost && knowsReset) {
          reader.next = this.#log.findLastIndex(({ chunk }) => chunk.type === 'start-step') + 1;
          send(reader, 'run-1:0.1', { type: 'reset-step' });
        } else if (lost && this.replays) {
          reader.next = 0;
        } else if (lost) {
          this.#letGo(reader);
          return;
        }
        if (this.letsGo > 0) {
          this.letsGo--;
          this.#letGo(reader);
          return;
        }
        this.#catchUp(reader);
      },
    });
    return new Response(body, {
      status: 200,
      headers: { 'content-type': 'text/event-stream', 'x-vercel-ai-ui-message-stream': 'v1' },
    });
  }

  #append(...chunks: Chunk[]) {
    for (const chunk of chunks) {
      const last = this.#log.at(-1)?.position ?? 0;
      const epoch = (this.#attempt - 1) * EPOCH;
      this.#log.push({ position: Math.max(last, epoch) + 1, chunk });
    }
    for (const reader of this.#readers) this.#catchUp(reader);
  }

  #catchUp(reader: Reader) {
    for (const { position, chunk } of this.#log.slice(reader.next)) {
      send(reader, `run-1:${position}`, chunk);
      reader.position = position;
    }
    reader.next = this.#log.length;
    if (this.isOver) this.#close(reader);
  }

  #close(reader: Reader) {
    reader.controller.enqueue(encode('data: [DONE]\n\n'));
    reader.controller.close();
    this.#readers.delete(reader);
  }

  #letGo(reader: Reader) {
    const last = knowsInterrupted
      ? { type: 'finish', finishReason: 'interrupted' }
      : { type: 'error', errorText: 'words that say nothing to a program' };
    send(reader, `run-1:${reader.position}.1`, last);
    this.#close(reader);
  }

  /** What is said on quiet streams. */
  keepsAlive() {
    for (const { controller } of this.#readers) controller.enqueue(encode(': keep-alive\n\n'));
  }

  // === what a test does ===

  says(words = 1) {
    for (let n = 0; n < words; n++)
      this.#append({ type: 'text-delta', id: 't', delta: `${this.#attempt}:${this.#words++} ` });
  }

  asks() {
    this.#append(
      { type: 'text-end', id: 't' },
      { type: 'tool-input-available', toolCallId: CALL, toolName: 'ask', input: {} },
    );
  }

  /** The call has its outcome, and the next step begins. */
  goesOn() {
    this.#append(
      { type: 'tool-output-available', toolCallId: CALL, output: 'done' },
      { type: 'finish-step' },
      { type: 'start-step' },
      { type: 'text-start', id: 't' },
    );
  }

  cut(how: Cut) {
    for (const reader of [...this.#readers]) {
      if (how === 'let go') {
        this.#letGo(reader);
        continue;
      }
      reader.controller.error(new TypeError('network error'));
      this.#readers.delete(reader);
    }
  }

  /** The process dies with the words of the step that were not saved, and the model is asked again. */
  loses() {
    this.cut('broken');
    this.#beginAgain();
  }

  /** The half step was kept, and is taken back now that the model is asked again. */
  takesBack() {
    if (!knowsReset) {
      this.cut('let go');
      this.#beginAgain();
      return;
    }
    this.#attempt++;
    this.#words = 0;
    this.#append({ type: 'reset-step' }, { type: 'text-start', id: 't' });
  }

  #beginAgain() {
    const step = this.#log.findLastIndex(({ chunk }) => chunk.type === 'start-step');
    this.#log = this.#log.slice(0, step + 1);
    this.#attempt++;
    this.#words = 0;
    this.#append({ type: 'text-start', id: 't' });
  }

  /** The log of the run that is over is no longer kept. */
  forgetsLog() {
    this.#isForgotten = true;
  }

  ends() {
    this.isOver = true;
    this.#append(
      { type: 'text-end', id: 't' },
      { type: 'finish-step' },
      { type: 'finish', messageMetadata: { ending: 'finished' } },
    );
  }
}

const positionOf = (id: string): number => Number(id.split(':')[1]?.split('.')[0]);

const encode = (text: string) => new TextEncoder().encode(text);

const send = ({ controller }: Reader, id: string, chunk: Chunk) => {
  controller.enqueue(encode(`id: ${id}\ndata: ${JSON.stringify(chunk)}\n\n`));
};

const refusal = () =>
  Response.json({ code: 'unavailable', detail: 'The server is shutting down.' }, { status: 503 });

/** What a page does that a person looks at. */
export class Page {
  readonly errors: Error[] = [];
  readonly connections: Connection[] = [];
  /** The words of the message each time that an answer was over for the AI SDK. */
  readonly finished: string[] = [];
  readonly chat: MemoryChat & FermataChat;
  /** For how many milliseconds in a row the page has shown an answer as over that was not, at most. */
  longestAsOver = 0;

  constructor(server: ReplacedServer) {
    const options = {
      fetch: server.fetch as typeof fetch,
      onConnection: (connection: Connection) => this.connections.push(connection),
    };
    this.chat = fermata(options).chat(MemoryChat, { id: ID, ...this.#listeners });
    let asOver = 0;
    setInterval(() => {
      asOver = server.isOpen && this.chat.status === 'ready' ? asOver + 1 : 0;
      this.longestAsOver = Math.max(this.longestAsOver, asOver);
    }, 1);
  }

  get #listeners() {
    return {
      onError: (error: Error) => this.errors.push(error),
      onFinish: ({ message }: { message: UIMessage }) => this.finished.push(textOf(message)),
    };
  }

  get text() {
    return this.chat.messages
      .filter(({ role }) => role === 'assistant')
      .map(textOf)
      .join('');
  }

  get statuses(): readonly ChatStatus[] {
    return this.chat.statuses;
  }
}

/** A page with a transport and nothing around it. */
export function lonePage(server: ReplacedServer) {
  const errors: Error[] = [];
  const transport = new FermataTransport({ fetch: server.fetch as typeof fetch });
  const chat = new MemoryChat({ id: ID, transport, onError: (error) => errors.push(error) });
  const text = () =>
    chat.messages
      .filter(({ role }) => role === 'assistant')
      .map(textOf)
      .join('');
  return { chat, errors, text };
}

const textOf = (message: UIMessage): string =>
  message.parts.map((part) => (part.type === 'text' ? part.text : '')).join('');

/** Lets the clock run, until something is so. */
export async function passes(milliseconds: number, isSo: () => boolean = () => false): Promise<void> {
  for (let passed = 0; passed < milliseconds && !isSo(); passed += 50) await vi.advanceTimersByTimeAsync(50);
}
