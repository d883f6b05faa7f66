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
// | loading      | answered, then loaded    | loading               | the record was too old: asks for it again       |
// | loading      | not loaded               | failing               | shows the error; 404 is a chat without messages |
// | following    | resumed                  | reading               |                                                 |
// | following    | over                     | idle, stale           | the run has ended in between                    |
// | any          | sent                     | sending               | what was asked for before is not wanted any more |
// | sending      | accepted                 | reading (fresh)       | forgets words that were not sent; tools stop    |
// | sending      | refused                  | idle, or what is read | keeps the words; becomes stale if sth. is read  |
// | reading      | broke                    | reconnecting          |                                                 |
// | reconnecting | reconnected              | reading               |                                                 |
// | reading, …   | ended before its run     | idle, stale           |                                                 |
// | reading, …   | ended                    | idle                  |                                                 |
// | any          | failed, as a refusal     |                       | tells the page                                  |
// | any          | failed                   | loading (recovering)  | asks what became of the run; three times        |
// | loading (recovering) | loaded, run goes on | as when loading    | the page is told nothing                        |
// | loading (recovering) | loaded, not loaded | idle                | tells the page                                  |
// | failing      | shown                    | idle                  |                                                 |
// | any          | stop was not heard       | stale                 | ends what is read, and follows the run again    |
import { draftOf, isDelivered } from './outbox.js';
import { FermataError } from './server.js';
const RECOVERIES = 3;
export const initialState = {
    phase: { name: 'idle' },
    streams: [],
    isStale: false,
    draft: undefined,
    viewers: undefined,
    recoveries: 0,
};
export const isLeft = (state) => state.viewers === 0;
/** Whether the AI SDK is at work, or reads for us. */
export const isBusy = (state, status) => state.streams.length > 0 ||
    state.phase.name === 'sending' ||
    state.phase.name === 'failing' ||
    status === 'streaming' ||
    status === 'submitted';
export function connectionOf({ phase, streams }) {
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
            return streams.length > 0 ? 'open' : 'closed';
        case 'idle':
        case 'failing':
            return 'closed';
        default:
            return phase;
    }
}
export function reduce(state, event, context) {
    const [next, actions] = apply(state, event, context);
    const isDue = next.isStale && next.phase.name === 'idle' && !isLeft(next) && !isBusy(next, context.status);
    if (!isDue)
        return [next, actions];
    const request = context.nextRequest();
    const phase = { name: 'loading', request, isOld: false, isRetrying: false };
    return [{ ...next, phase }, [...actions, { type: 'load', request, attempt: 0 }]];
}
const IDLE = { name: 'idle' };
function apply(state, event, context) {
    const { phase } = state;
    switch (event.type) {
        case 'opened':
            return [{ ...state, viewers: (state.viewers ?? 0) + 1, isStale: state.isStale || !event.isNew }, []];
        case 'left': {
            const viewers = Math.max(0, (state.viewers ?? 1) - 1);
            if (viewers > 0)
                return [{ ...state, viewers }, []];
            const isAsking = phase.name === 'loading' || phase.name === 'following';
            const isStale = state.isStale || state.streams.length > 0;
            return [{ ...state, viewers, isStale, phase: isAsking ? IDLE : phase }, abortStreams(state)];
        }
        case 'refresh':
            return [{ ...state, isStale: true }, []];
        case 'answered':
            return [phase.name === 'loading' ? { ...state, phase: { ...phase, isOld: true } } : state, []];
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
            if (!('request' in phase) || phase.request !== event.request)
                return [state, []];
            if (phase.name === 'loading' && phase.recovering)
                return [{ ...state, phase: IDLE }, [{ type: 'tellPage', error: phase.recovering }]];
            // A chat that nobody has posted to yet is empty.
            if (event.error instanceof FermataError && event.error.code === 'not_found')
                return [{ ...state, phase: IDLE, isStale: false }, []];
            return failing({ ...state, isStale: false }, event.error);
        case 'over':
            if (phase.name !== 'following' || phase.request !== event.request)
                return [state, []];
            return [{ ...state, phase: IDLE, isStale: true }, []];
        default:
            return event;
    }
}
const abortStreams = ({ streams }) => streams.map((request) => ({ type: 'abort', request }));
function load(state, request, record, context) {
    const { phase } = state;
    if (phase.name !== 'loading' || phase.request !== request)
        return [state, []];
    const draft = state.draft && isDelivered(state.draft, record.messages) ? undefined : state.draft;
    if (phase.isOld)
        return [{ ...state, draft, phase: IDLE, isStale: true }, []];
    if (phase.recovering && (draft !== undefined || (!record.open && record.pending.length === 0)))
        return [{ ...state, draft, phase: IDLE }, [{ type: 'tellPage', error: phase.recovering }]];
    if (!record.open) {
        const show = { type: 'show', record };
        if (draft === undefined)
            return [{ ...state, draft, phase: IDLE, isStale: false }, [show]];
        const [shown, actions] = showDraft(state, draft);
        return [shown, [show, ...actions]];
    }
    // What follows a run would push the words aside that the person sees, and may try to send again.
    if (context.status === 'error' && draft !== undefined)
        return showDraft(state, draft);
    const following = { name: 'following', request, record, isRetrying: phase.isRetrying };
    return [{ ...state, draft, phase: following }, [{ type: 'openStream', request }]];
}
function showDraft(state, draft) {
    const shown = { ...draft, isAside: false };
    const next = { ...state, draft: shown, phase: IDLE, isStale: false };
    const show = { type: 'showDraft', draft: shown };
    if (draft.error === undefined)
        return [next, [show]];
    const [failed, actions] = failing(next, draft.error);
    return [failed, [show, ...actions]];
}
function failing(state, error) {
    return [{ ...state, phase: { name: 'failing', error } }, [{ type: 'fail', error }]];
}
/** The AI SDK shows an error. The server that held the stream may be gone, and not the run. */
function fail(state, error, context) {
    const { phase } = state;
    if (phase.name === 'failing')
        return [state, []];
    // What a person sent and the server refused is still to be sent; what only went on with a run may have been
    // overtaken by others.
    const isRefusal = state.draft?.error === error && error instanceof FermataError && context.messages.at(-1)?.role === 'user';
    if (isRefusal || phase.name === 'sending' || state.recoveries >= RECOVERIES || isLeft(state))
        return [state, [{ type: 'tellPage', error }]];
    const request = context.nextRequest();
    const loading = { name: 'loading', request, isOld: false, isRetrying: false, recovering: error };
    const { recoveries } = state;
    const recovering = { ...state, phase: loading, recoveries: recoveries + 1 };
    return [recovering, [{ type: 'load', request, attempt: recoveries }]];
}
function applyRequest(state, request, what, context) {
    const { phase, streams } = state;
    const isNewest = 'request' in phase && phase.request === request;
    switch (what.type) {
        case 'sent':
            return [{ ...state, phase: { name: 'sending', request } }, []];
        case 'accepted': {
            // Words that the person sees, and goes on without, are not to be sent any more.
            const draft = state.draft?.isAside === true ? state.draft : undefined;
            const reading = isNewest ? { name: 'reading', request, isFresh: true } : phase;
            const next = { ...state, draft, phase: reading, streams: [...streams, request], recoveries: 0 };
            const actions = [{ type: 'stopTools' }, { type: 'tellTabs' }, { type: 'settleOlder' }];
            return [next, isLeft(state) ? [...actions, { type: 'abort', request }] : actions];
        }
        case 'refused': {
            const { error, isAborted } = what;
            const draft = draftOf(context.messages, error instanceof Error && !isAborted ? error : undefined);
            const kept = { ...state, draft: draft ?? state.draft };
            if (!isNewest)
                return [kept, []];
            const older = streams.at(-1);
            if (older === undefined)
                return [{ ...kept, phase: IDLE }, []];
            // The stream that is still read will go on behind the message that was not sent.
            const reading = { name: 'reading', request: older, isFresh: false };
            return [{ ...kept, phase: reading, isStale: true }, []];
        }
        case 'resumed': {
            // Words that were not sent come back behind the message that is written now, once it is whole.
            const draft = state.draft && { ...state.draft, isAside: true };
            const reading = { name: 'reading', request, isFresh: false };
            const next = { ...state, draft, phase: reading, streams: [...streams, request] };
            return [{ ...next, isStale: draft !== undefined }, []];
        }
        case 'retrying':
            return [
                isNewest && (phase.name === 'loading' || phase.name === 'following')
                    ? { ...state, phase: { ...phase, isRetrying: true } }
                    : state,
                [],
            ];
        case 'broke':
            return [isNewest ? { ...state, phase: { name: 'reconnecting', request } } : state, []];
        case 'reconnected':
            // What was missed may be over already.
            return [isNewest ? { ...state, phase: { name: 'reading', request, isFresh: false } } : state, []];
        case 'ended': {
            const { isWhole, isAborted } = what;
            const left = { ...state, streams: streams.filter((other) => other !== request) };
            const next = { ...left, recoveries: isWhole ? 0 : state.recoveries };
            if (!isNewest)
                return [next, []];
            return [{ ...next, phase: IDLE, isStale: state.isStale || (!isWhole && !isAborted) }, []];
        }
        default:
            return what;
    }
}
//# sourceMappingURL=state.js.map