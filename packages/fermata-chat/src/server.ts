// Requests to a Fermata server, and the errors that its refusals become.

import { approvalIn, type Approval } from './approval.js';
import { unlessLeaving } from './leaving.js';

/** The address of a server, and the headers and the `fetch` of every request to it. */
export interface ServerOptions {
  /** The path or URL of the chat endpoint; `/api/chat` by default. */
  api?: string;
  /** Headers of every request, such as `authorization`. */
  headers?: Record<string, string> | (() => Record<string, string>);
  /** Used instead of the global `fetch`. */
  fetch?: typeof fetch;
}

/** A place in an edited input or in a reply that does not fit its schema. */
export interface RefusedPlace {
  /** The place, as a JSON Pointer. It is empty for the whole value. */
  pointer: string;
  detail: string;
}

/** A request that the server refused. Its message can be shown to a person. */
export class FermataError extends Error {
  override readonly name = 'FermataError';
  /** The HTTP status. */
  readonly status: number;
  /** The code of the error, such as `already_answered`. */
  readonly code: string;
  /** The places that do not fit, if an answer was refused for them. */
  readonly errors: readonly RefusedPlace[];
  /** The approval as it is now, if a vote was refused because it has changed or is settled. */
  readonly approval: Approval | undefined;

  constructor(
    status: number,
    code: string,
    detail: string,
    errors: readonly RefusedPlace[] = [],
    approval?: Approval,
  ) {
    super(detail);
    this.status = status;
    this.code = code;
    this.errors = errors;
    this.approval = approval;
  }
}

/** Waits between two attempts, in milliseconds; the last one repeats. */
const WAITS = [500, 1000, 2000, 4000, 8000];
/** For how long a request is made again while the server does not answer or has no time, in milliseconds: longer than a deploy takes. */
const PATIENCE = 90_000;

/** Returns `true` if the same request may succeed later. */
export const isTransient = (status: number) => [408, 429, 502, 503, 504].includes(status);

export class Server {
  readonly api: string;
  readonly #options: ServerOptions;

  constructor(options: ServerOptions) {
    this.api = options.api ?? '/api/chat';
    this.#options = options;
  }

  chatUrl(chatId: string, path = ''): string {
    return `${this.api}/${encodeURIComponent(chatId)}${path}`;
  }

  /** The URL of what is beside the chat endpoint. */
  beside(name: string): string {
    return this.api.replace(/[^/]*$/, name);
  }

  /** Asks for JSON; throws a `FermataError` if the server refuses. */
  async json<T>(url: string, init: RequestInit = {}): Promise<T> {
    const headers = new Headers(init.headers);
    if (init.body != null) headers.set('content-type', 'application/json');
    const response = await this.fetch(url, { ...init, headers });
    if (!response.ok) throw await refusalOf(response);
    if (response.status === 204) return undefined as T;
    if (!isOfType(response, 'application/json')) throw foreignReply(response);
    return (await response.json()) as T;
  }

  /** Posts a chat. The server has done nothing if it answers 503, so then the same is posted again. */
  async post(body: object, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
    const init = {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal,
    };
    const isInTime = timeLimit();
    for (let attempt = 0; ; attempt++) {
      const response = await this.fetch(this.api, init);
      if (response.status !== 503 || signal.aborted || !isInTime()) return response;
      await pause(attempt, signal);
    }
  }

  /**
   * Asks for the stream of a chat's open run, from its beginning or after a position, and tries again
   * until the server answers; `undefined` if there is none.
   */
  async openStream(
    chatId: string,
    position: string | undefined,
    signal: AbortSignal,
    onRetry: () => void,
  ): Promise<ReadableStream<Uint8Array> | undefined> {
    for (let attempt = 0; !signal.aborted; attempt++) {
      if (attempt > 0) {
        onRetry();
        await pause(attempt - 1, signal);
      }
      if (!(await unlessLeaving(signal))) break;
      const response = await this.askForEvents(this.chatUrl(chatId, '/stream'), position, signal);
      if (response?.status === 204) return undefined;
      if (response !== undefined) return streamOf(response);
    }
    return undefined;
  }

  /**
   * Asks once for a stream of events, from its beginning or after a position; `undefined` if another attempt may succeed.
   *
   * @throws FermataError if the server refuses.
   */
  async askForEvents(
    url: string,
    position: string | undefined,
    signal: AbortSignal,
  ): Promise<Response | undefined> {
    const headers: Record<string, string> = position === undefined ? {} : { 'last-event-id': position };
    try {
      // Firefox lets a request wait for 20 seconds for another one of the same URL, such as that of another tab, to fill its cache.
      const response = await this.fetch(url, { headers, signal, cache: 'no-store' });
      if (response.ok) return response;
      if (!isTransient(response.status)) throw await refusalOf(response);
    } catch (error) {
      if (error instanceof FermataError) throw error;
    }
    return undefined;
  }

  fetch(url: string, init: RequestInit = {}): Promise<Response> {
    const { headers } = this.#options;
    const own = typeof headers === 'function' ? headers() : headers;
    // Not every page's own `fetch` knows more than a plain object.
    const given = Object.fromEntries(new Headers(init.headers));
    return (this.#options.fetch ?? fetch)(url, { ...init, headers: { ...own, ...given } });
  }
}

/** Does something that is harmless when it is done twice, until it succeeds, is refused or is aborted. */
export async function retry<T>(
  what: () => Promise<T>,
  goesOn: (attempt: number) => boolean = timeLimit(),
  signal?: AbortSignal,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await what();
    } catch (error) {
      const isFinal = error instanceof FermataError && !isTransient(error.status);
      if (isFinal || !goesOn(attempt)) throw error;
      await pause(attempt - 1, signal);
      if (signal?.aborted === true) throw error;
    }
  }
}

/** Returns a function that says whether the time for attempts, which begins now, is not over. */
function timeLimit(): () => boolean {
  const end = Date.now() + PATIENCE;
  return () => Date.now() < end;
}

/**
 * Waits before the next attempt: longer each time, but no longer than until the network is back. How long is random, so that the pages that
 * an instance lets go do not come to the next one in one moment.
 */
export function pause(attempt: number, signal?: AbortSignal): Promise<void> {
  const longest = WAITS[Math.min(attempt, WAITS.length - 1)] ?? 0;
  const shortest = attempt === 0 ? 0 : longest / 2;
  // Not every place that runs this is a page.
  const page: Partial<typeof globalThis> = globalThis;
  return new Promise((resolve) => {
    const go = () => {
      clearTimeout(timer);
      page.removeEventListener?.('online', go);
      signal?.removeEventListener('abort', go);
      resolve();
    };
    const timer = setTimeout(go, shortest + (longest - shortest) * Math.random());
    page.addEventListener?.('online', go);
    signal?.addEventListener('abort', go);
    if (signal?.aborted === true) go();
  });
}

/**
 * Returns the stream of a run. Proxies and sign-in pages answer 200 as well, so a reply counts only if it has the content type and a header
 * of the protocol. A page of another origin can read only some of the headers.
 *
 * @throws FermataError with the code `foreign_reply` if the reply is anything else.
 */
export function streamOf(response: Response): ReadableStream<Uint8Array> {
  if (STREAM_HEADERS.some((name) => response.headers.has(name))) return eventsOf(response);
  void response.body?.cancel().catch(() => undefined);
  throw foreignReply(response);
}

const STREAM_HEADERS = ['x-vercel-ai-ui-message-stream', 'x-resumable-stream-id'];

/**
 * Returns the body of an event stream.
 *
 * @throws FermataError with the code `foreign_reply` if the reply is anything else.
 */
export function eventsOf(response: Response): ReadableStream<Uint8Array> {
  if (response.body !== null && isOfType(response, EVENT_STREAM)) return response.body;
  void response.body?.cancel().catch(() => undefined);
  throw foreignReply(response);
}

const EVENT_STREAM = 'text/event-stream';

const isOfType = ({ headers }: Response, type: string) =>
  headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase() === type;

/** Reads a problem document (RFC 9457). A proxy sends something else in its place. */
export async function refusalOf(response: Response): Promise<FermataError> {
  const text = await response.text();
  const problem = problemIn(text);
  if (problem === undefined) return foreignReply(response, text);
  return new FermataError(
    response.status,
    problem.code,
    problem.detail,
    problem.errors,
    approvalIn(problem.approval),
  );
}

interface Problem {
  code: string;
  detail: string;
  errors?: RefusedPlace[];
  approval?: unknown;
}

function problemIn(text: string): Problem | undefined {
  try {
    const problem = JSON.parse(text) as Partial<Problem> | null;
    const isProblem = typeof problem?.code === 'string' && typeof problem.detail === 'string';
    return isProblem ? (problem as Problem) : undefined;
  } catch {
    return undefined;
  }
}

/** The error for a reply that is not of a Fermata server. Only a short plain text of it is shown, and never HTML. */
function foreignReply({ status, redirected }: Response, text = ''): FermataError {
  const said = text.trim();
  const isReadable = said !== '' && said.length <= LONGEST_WORDS && !/[<{]/.test(said);
  const what = redirected
    ? 'The request was redirected to another page'
    : `Another server answered ${status}`;
  const words = isReadable ? said : `${what}. A proxy or a sign-in page may be in the way.`;
  return new FermataError(status, FOREIGN_REPLY, words);
}

const FOREIGN_REPLY = 'foreign_reply';
/** The length of the longest text of a proxy that is shown. */
const LONGEST_WORDS = 300;

/** Returns `true` if an answer was refused because of its content. */
export const isInvalid = (error: unknown): error is FermataError =>
  error instanceof FermataError && [400, 413, 422].includes(error.status);

/** Returns `true` if a message was refused because the calls that wait have changed since its sender saw them. */
export const isStaleDecision = (error: unknown): error is FermataError =>
  error instanceof FermataError && error.code === 'decision_is_stale';

/** Returns `true` if an answer was refused because the page shows a request that waits no longer. */
export const isSettledElsewhere = (error: unknown): boolean =>
  error instanceof FermataError &&
  ['already_answered', 'gone', 'not_found', 'tool_changed'].includes(error.code);
