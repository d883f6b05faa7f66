// What a page does about the server of one chat: `(state, event) → (state, actions)`, without I/O.
//
// The phase is what the newest request of the page is at. A number tells requests apart, so that what comes of
// an older one is never taken for news of the newest.
//
// | phase        | event                    | next phase            | what is done                                    |
// |--------------|--------------------------|-----------------------|-------------------------------------------------|
// | any          | opened                   |                       | a chat that is not new becomes stale            |
// | any          | left by its last viewer  | idle, if loading      | what is read is ended; posts go on              |
// | any          | refresh                  |                       | becomes stale                                   |
// | idle, stale  | any, the AI SDK at rest  | loading               | asks for the record                             |
// | loading      | loaded, run open         | following             | asks for the run's stream                       |
// | loading      | loaded, run open, while  | failing               | shows the unsent words and their error again    |
// |              | unsent words are shown   |                       |                                                 |
// | loading      | loaded                   | idle                  | shows the record, runs the page's tools         |
// | loading      | not loaded               | failing               | shows the error; 404 is a chat without messages |
// | following    | resumed                  | reading               |                                                 |
// | following    | over                     | idle, stale           | the run has ended in between                    |
// | any          | sent                     | sending               | what was asked for before is not wanted any more |
// | sending      | accepted                 | reading (fresh)       | forgets words that were not sent; tools stop    |
// | sending      | refused                  | idle, or what is read | keeps the words; becomes stale if sth. is read  |
// | sending      | refused as stale, or on  | idle, or what is read | gives the words back; becomes stale             |
// |              | a page that wants them   |                       |                                                 |
// |              | back                     |                       |                                                 |
// | sending      | retrying                 |                       | the message waits for the network               |
// | reading      | broke                    | reconnecting          |                                                 |
// | reconnecting | reconnected              | reading               |                                                 |
// | reading, …   | ended before its run     | idle, stale           |                                                 |
// | reading, …   | ended, with a record     | idle                  | shows the record                                |
// | reading, …   | ended, with a record     | following             | follows the run that is open, from its          |
// |              | that says a run is open  |                       | beginning                                       |
// | reading, …   | ended                    | idle                  |                                                 |
// | any          | failed, as a refusal     |                       | tells the page                                  |
// | any          | failed                   | loading (recovering)  | asks what became of the run; three times        |
// | loading (recovering) | loaded, run goes on, | as when loading   | the page receives no error                     |
// |              | waits, or is finished    |                       |                                                 |
// | loading (recovering) | loaded, not loaded | idle                | tells the page                                  |
// | failing      | shown                    | idle                  |                                                 |
// | any          | stop was not heard       | stale                 | ends what is read, and follows the run again    |

import type { ChatStatus, UIMessage } from 'ai';
import { draftOf, isDelivered, type Draft } from './outbox.js';
import type { ChatRecord } from './record.js';
import { FermataError, isStaleDecision } from './server.js';
import type { StreamOutcome } from './stream.js';
import type { Connection, RequestEvent } from './transport.js';

export type Phase =
  | { name: 'idle' }
  /** `recovering`: the error of a run that may go on; the page receives it if the run does not. */
  | { name: 'loading'; request: number; isRetrying: boolean; recovering?: Error }
  | { name: 'following'; request: number; record: ChatRecord; isRetrying: boolean }
  /** `isRetrying`: the server cannot be reached, and the message waits for that. */
  | { name: 'sending'; request: number; isRetrying: boolean }
  /** `isFresh`: the stream began with a post, so nothing in it is a replay. */
  | { name: 'reading'; request: number; isFresh: boolean }
  | { name: 'reconnecting'; request: number }
  /** The AI SDK is made to show an error that it did not meet itself. */
  | { name: 'failing'; error: Error };

export interface State {
  phase: Phase;
  /** Streams that the AI SDK reads, the oldest first. All but the newest are of runs that were superseded. */
  streams: readonly number[];
  /** `true` if the page may show something else than the server has. */
  isStale: boolean;
  draft: Draft | undefined;
  /** The reason of the last message that was given back. */
  givenBackFor: Error | undefined;
  /** The number of components that show the chat; `undefined` if none ever did. */
  viewers: number | undefined;
  /** The number of searches for a failed run since a stream came to its end. */
  recoveries: number;
}

export type Event =
  | { type: 'opened'; isNew: boolean }
  | { type: 'left' }
  | { type: 'refresh' }
  | { type: 'settled' }
  | { type: 'stopUnheard' }
  | { type: 'failed'; error: Error }
  | { type: 'shown' }
  | { type: 'request'; request: number; what: RequestEvent }
  | { type: 'loaded'; request: number; record: ChatRecord }
  | { type: 'notLoaded'; request: number; error: Error }
  | { type: 'over'; request: number };

export type Action =
  /** `attempt`: how often the same was tried just before. */
  | { type: 'load'; request: number; attempt: number }
  /** `body`: the stream, if it is open already. The AI SDK is then about to end the one before. */
  | { type: 'openStream'; request: number; body?: ReadableStream<Uint8Array> }
  | { type: 'discard'; body: ReadableStream<Uint8Array> }
  | { type: 'show'; record: ChatRecord }
  | { type: 'showDraft'; draft: Draft }
  /** The page takes a message back, because it was refused for what waits by now. */
  | { type: 'giveBack'; message: UIMessage; error: FermataError }
  | { type: 'fail'; error: Error }
  | { type: 'tellPage'; error: Error }
  | { type: 'abort'; request: number }
  | { type: 'stopTools' }
  | { type: 'tellTabs' }
  | { type: 'settleOlder' };

/** The state of the AI SDK's chat, and the number for a request that begins. */
export interface Context {
  status: ChatStatus;
  messages: readonly UIMessage[];
  nextRequest: () => number;
  /** `true` if the page puts the words of a refused message back where they were written. */
  givesBack: boolean;
}

const RECOVERIES = 3;

export const initialState: State = {
  phase: { name: 'idle' },
  streams: [],
  isStale: false,
  draft: undefined,
  givenBackFor: undefined,
  viewers: undefined,
  recoveries: 0,
};

export const isLeft = (state: State): boolean => state.viewers === 0;

/** Returns `true` if the AI SDK is at work, or reads for us. */
export const isBusy = (state: State, status: ChatStatus): boolean =>
  state.streams.length > 0 ||
  state.phase.name === 'sending' ||
  state.phase.name === 'failing' ||
  status === 'streaming' ||
  status === 'submitted';

export function connectionOf({ phase, streams }: State): Connection {
  switch (phase.name) {
    case 'reading':
      return 'open';
    case 'reconnecting':
      return 'reconnecting';
    case 'loading':
      return phase.isRetrying || phase.recovering ? 'reconnecting' : 'closed';
    case 'following':
      return phase.isRetrying ? 'reconnecting' : 'closed';
    case 'sending':
      if (phase.isRetrying) return 'reconnecting';
      return streams.length > 0 ? 'open' : 'closed';
    case 'idle':
    case 'failing':
      return 'closed';
    default:
      return phase satisfies never;
  }
}

export function reduce(state: State, event: Event, context: Context): [State, Action[]] {
  const [next, actions] = apply(state, event, context);
  const isDue = next.isStale && next.phase.name === 'idle' && !isLeft(next) && !isBusy(next, context.status);
  if (!isDue) return [next, actions];
  const request = context.nextRequest();
  const phase: Phase = { name: 'loading', request, isRetrying: false };
  return [{ ...next, phase }, [...actions, { type: 'load', request, attempt: 0 }]];
}

const IDLE: Phase = { name: 'idle' };

function apply(state: State, event: Event, context: Context): [State, Action[]] {
  const { phase } = state;
  switch (event.type) {
    case 'opened':
      return [{ ...state, viewers: (state.viewers ?? 0) + 1, isStale: state.isStale || !event.isNew }, []];
    case 'left': {
      const viewers = Math.max(0, (state.viewers ?? 1) - 1);
      if (viewers > 0) return [{ ...state, viewers }, []];
      const isAsking = phase.name === 'loading' || phase.name === 'following';
      const isStale = state.isStale || state.streams.length > 0;
      return [{ ...state, viewers, isStale, phase: isAsking ? IDLE : phase }, abortStreams(state)];
    }
    case 'refresh':
      return [{ ...state, isStale: true }, []];
    case 'settled':
      return [state, []];
    case 'stopUnheard':
      return [{ ...state, isStale: true }, abortStreams(state)];
    case 'failed':
      return fail(state, event.error, context);
    case 'shown':
      return [phase.name === 'failing' ? { ...state, phase: IDLE } : state, []];
    case 'request':
      return applyRequest(state, event.request, event.what, context);
    case 'loaded':
      return load(state, event.request, event.record, context);
    case 'notLoaded':
      if (!('request' in phase) || phase.request !== event.request) return [state, []];
      if (phase.name === 'loading' && phase.recovering)
        return [{ ...state, phase: IDLE }, [{ type: 'tellPage', error: phase.recovering }]];
      // A chat that nobody has posted to yet is empty.
      if (event.error instanceof FermataError && event.error.code === 'not_found')
        return [{ ...state, phase: IDLE, isStale: false }, []];
      // The person has the words back, with a reason that is most likely the same.
      if (state.givenBackFor !== undefined) return [{ ...state, phase: IDLE, isStale: false }, []];
      return failing({ ...state, isStale: false }, event.error);
    case 'over':
      if (phase.name !== 'following' || phase.request !== event.request) return [state, []];
      return [{ ...state, phase: IDLE, isStale: true }, []];
    default:
      return event satisfies never;
  }
}

const abortStreams = ({ streams }: State): Action[] =>
  streams.map((request): Action => ({ type: 'abort', request }));

function load(state: State, request: number, record: ChatRecord, context: Context): [State, Action[]] {
  const { phase } = state;
  if (phase.name !== 'loading' || phase.request !== request) return [state, []];
  const draft = state.draft && isDelivered(state.draft.message, record.messages) ? undefined : state.draft;
  const hasFailed = !record.open && record.pending.length === 0 && !isFinished(record);
  if (phase.recovering && (draft !== undefined || hasFailed))
    return [{ ...state, draft, phase: IDLE }, [{ type: 'tellPage', error: phase.recovering }]];
  if (!record.open) {
    const show: Action = { type: 'show', record };
    if (draft === undefined) return [{ ...state, draft, phase: IDLE, isStale: false }, [show]];
    const [shown, actions] = showDraft(state, draft);
    return [shown, [show, ...actions]];
  }
  // What follows a run would push the words aside that the person sees, and may try to send again.
  if (context.status === 'error' && draft !== undefined) return showDraft(state, draft);
  const following: Phase = { name: 'following', request, record, isRetrying: phase.isRetrying };
  return [{ ...state, draft, phase: following }, [{ type: 'openStream', request }]];
}

/** Returns `true` if the last run came to its end elsewhere, and has not failed: then its message says how it ended. */
function isFinished({ messages }: ChatRecord): boolean {
  const last = messages.at(-1);
  if (last?.role !== 'assistant') return false;
  const { ending } = (last.metadata ?? {}) as { ending?: string };
  return ending !== undefined;
}

function showDraft(state: State, draft: Draft): [State, Action[]] {
  const shown: Draft = { ...draft, isAside: false };
  const next = { ...state, draft: shown, phase: IDLE, isStale: false };
  const show: Action = { type: 'showDraft', draft: shown };
  if (draft.error === undefined) return [next, [show]];
  const [failed, actions] = failing(next, draft.error);
  return [failed, [show, ...actions]];
}

function failing(state: State, error: Error): [State, Action[]] {
  return [{ ...state, phase: { name: 'failing', error } }, [{ type: 'fail', error }]];
}

/** The AI SDK shows an error. The server that held the stream may be gone, and not the run. */
function fail(state: State, error: Error, context: Context): [State, Action[]] {
  const { phase } = state;
  if (phase.name === 'failing') return [state, []];
  // The page has its words back, and the chat is loaded anyway.
  if (error === state.givenBackFor) return [state, [{ type: 'tellPage', error }]];
  // What a person sent and the server refused is still to be sent; what only went on with a run may have been
  // overtaken by others.
  const isRefusal =
    state.draft?.error === error && error instanceof FermataError && context.messages.at(-1)?.role === 'user';
  if (isRefusal || phase.name === 'sending' || state.recoveries >= RECOVERIES || isLeft(state))
    return [state, [{ type: 'tellPage', error }]];
  const request = context.nextRequest();
  const loading: Phase = { name: 'loading', request, isRetrying: false, recovering: error };
  const { recoveries } = state;
  const recovering = { ...state, phase: loading, recoveries: recoveries + 1 };
  return [recovering, [{ type: 'load', request, attempt: recoveries }]];
}

function applyRequest(
  state: State,
  request: number,
  what: RequestEvent,
  context: Context,
): [State, Action[]] {
  const { phase, streams } = state;
  const isNewest = 'request' in phase && phase.request === request;
  switch (what.type) {
    case 'sent':
      return [
        { ...state, phase: { name: 'sending', request, isRetrying: false }, givenBackFor: undefined },
        [],
      ];
    case 'accepted': {
      // Words that the person sees, and goes on without, are not to be sent any more.
      const draft = state.draft?.isAside === true ? state.draft : undefined;
      const reading = isNewest ? ({ name: 'reading', request, isFresh: true } as const) : phase;
      const next = { ...state, draft, phase: reading, streams: [...streams, request], recoveries: 0 };
      const actions: Action[] = [{ type: 'stopTools' }, { type: 'tellTabs' }, { type: 'settleOlder' }];
      return [next, isLeft(state) ? [...actions, { type: 'abort', request }] : actions];
    }
    case 'refused': {
      const { error, isAborted, message } = what;
      const isBack = isStaleDecision(error) || (context.givesBack && error instanceof FermataError);
      if (isBack && message !== undefined) {
        const older = isNewest ? streams.at(-1) : undefined;
        const rest: Phase = older === undefined ? IDLE : { name: 'reading', request: older, isFresh: false };
        const next = { ...state, phase: isNewest ? rest : phase, isStale: true, givenBackFor: error };
        return [next, [{ type: 'giveBack', message, error }]];
      }
      const draft = draftOf(context.messages, error instanceof Error && !isAborted ? error : undefined);
      const kept = { ...state, draft: draft ?? state.draft };
      if (!isNewest) return [kept, []];
      const older = streams.at(-1);
      if (older === undefined) return [{ ...kept, phase: IDLE }, []];
      // The stream that is still read will go on behind the message that was not sent.
      const reading = { name: 'reading', request: older, isFresh: false } as const;
      return [{ ...kept, phase: reading, isStale: true }, []];
    }
    case 'resumed': {
      // Words that were not sent come back behind the message that is written now, once it is whole.
      const draft = state.draft && { ...state.draft, isAside: true };
      const reading: Phase = { name: 'reading', request, isFresh: false };
      const next = { ...state, draft, phase: reading, streams: [...streams, request] };
      return [{ ...next, isStale: draft !== undefined }, []];
    }
    case 'retrying':
      return [
        isNewest && 'isRetrying' in phase ? { ...state, phase: { ...phase, isRetrying: true } } : state,
        [],
      ];
    case 'broke':
      return [isNewest ? { ...state, phase: { name: 'reconnecting', request } } : state, []];
    case 'reconnected':
      // What was missed may be over already.
      return [isNewest ? { ...state, phase: { name: 'reading', request, isFresh: false } } : state, []];
    case 'ended': {
      const { isWhole, isAborted, outcome } = what;
      const left = { ...state, streams: streams.filter((other) => other !== request) };
      const next = { ...left, recoveries: isWhole ? 0 : state.recoveries };
      if (isNewest && outcome !== undefined && !isAborted && !isLeft(state))
        return applyOutcome(next, outcome, context);
      const discard: Action[] = outcome?.body === undefined ? [] : [{ type: 'discard', body: outcome.body }];
      if (!isNewest) return [next, discard];
      return [{ ...next, phase: IDLE, isStale: state.isStale || (!isWhole && !isAborted) }, discard];
    }
    default:
      return what satisfies never;
  }
}

/** Shows what the record has in place of the rest of a stream, before the AI SDK takes it for the end; or follows the run that is open. */
function applyOutcome(state: State, { record, body }: StreamOutcome, context: Context): [State, Action[]] {
  const draft = state.draft && isDelivered(state.draft.message, record.messages) ? undefined : state.draft;
  if (record.open) {
    const request = context.nextRequest();
    const following: Phase = { name: 'following', request, record, isRetrying: true };
    return [{ ...state, draft, phase: following }, [{ type: 'openStream', request, ...(body && { body }) }]];
  }
  // Words that were not sent come back once the AI SDK is at rest.
  if (draft !== undefined) return [{ ...state, draft, phase: IDLE, isStale: true }, []];
  return [{ ...state, draft, phase: IDLE }, [{ type: 'show', record }]];
}
