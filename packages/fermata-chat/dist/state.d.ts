import type { ChatStatus, UIMessage } from 'ai';
import { type Draft } from './outbox.js';
import type { Connection, RequestEvent } from './transport.js';
/** A chat as `GET /api/chat/{id}` has it. */
export interface ChatRecord {
    messages: UIMessage[];
    pending: Pending[];
    open: boolean;
}
/** What waits for somebody, as `GET /api/chat/{id}/pending` has it. */
export interface Pending {
    id: string;
    toolCallId: string;
    tool: string;
    input: unknown;
    kind: 'approval' | 'output' | 'elicitation';
    state: string;
    since: string;
    expires?: string;
    approvalId?: string;
    /** Why a person is asked, in the words of the rule that asks. */
    reason?: string;
    /** What an elicitation asks, in the words of the MCP server that asks it. */
    message?: string;
    server?: string;
    requestedSchema?: object;
}
export type Phase = {
    name: 'idle';
}
/**
 * `isOld`: an answer was given since the record was asked for. `recovering`: the error of a run that may go on;
 * the page is told if it does not.
 */
 | {
    name: 'loading';
    request: number;
    isOld: boolean;
    isRetrying: boolean;
    recovering?: Error;
} | {
    name: 'following';
    request: number;
    record: ChatRecord;
    isRetrying: boolean;
} | {
    name: 'sending';
    request: number;
}
/** `isFresh`: the stream began with a post, so nothing in it is a replay. */
 | {
    name: 'reading';
    request: number;
    isFresh: boolean;
} | {
    name: 'reconnecting';
    request: number;
}
/** The AI SDK is made to show an error that it did not meet itself. */
 | {
    name: 'failing';
    error: Error;
};
export interface State {
    phase: Phase;
    /** Streams that the AI SDK reads, the oldest first. All but the newest are of runs that were superseded. */
    streams: readonly number[];
    /** Whether the page may show something else than the server has. */
    isStale: boolean;
    draft: Draft | undefined;
    /** How many components show the chat; `undefined` if none ever said so. */
    viewers: number | undefined;
    /** How often a failed run was looked for since a stream came to its end. */
    recoveries: number;
}
export type Event = {
    type: 'opened';
    isNew: boolean;
} | {
    type: 'left';
} | {
    type: 'refresh';
} | {
    type: 'answered';
} | {
    type: 'settled';
} | {
    type: 'stopUnheard';
} | {
    type: 'failed';
    error: Error;
} | {
    type: 'shown';
} | {
    type: 'request';
    request: number;
    what: RequestEvent;
} | {
    type: 'loaded';
    request: number;
    record: ChatRecord;
} | {
    type: 'notLoaded';
    request: number;
    error: Error;
} | {
    type: 'over';
    request: number;
};
export type Action = 
/** `attempt`: how often the same was tried just before. */
{
    type: 'load';
    request: number;
    attempt: number;
} | {
    type: 'openStream';
    request: number;
} | {
    type: 'show';
    record: ChatRecord;
} | {
    type: 'showDraft';
    draft: Draft;
} | {
    type: 'fail';
    error: Error;
} | {
    type: 'tellPage';
    error: Error;
} | {
    type: 'abort';
    request: number;
} | {
    type: 'stopTools';
} | {
    type: 'tellTabs';
} | {
    type: 'settleOlder';
};
/** What the AI SDK's chat says of itself, and the number for a request that begins. */
export interface Context {
    status: ChatStatus;
    messages: readonly UIMessage[];
    nextRequest: () => number;
}
export declare const initialState: State;
export declare const isLeft: (state: State) => boolean;
/** Whether the AI SDK is at work, or reads for us. */
export declare const isBusy: (state: State, status: ChatStatus) => boolean;
export declare function connectionOf({ phase, streams }: State): Connection;
export declare function reduce(state: State, event: Event, context: Context): [State, Action[]];
//# sourceMappingURL=state.d.ts.map