// The approvals that wait for the person, kept up to date. `applyToInbox` decides what is known, without I/O; `ApprovalInbox` reads the
// list and follows its changes.
//
// Each connection is opened before the list is read, so no change falls between the two. The list is read again with each connection:
// a server that was restarted cannot say what was missed. An inbox counts as complete only while both are there (`live`).
//
// What is settled, or waits for others, keeps its place until `tidy`: nothing moves under a person's finger, and a late click finds the
// outcome.

import { isWaitingFor, type Approval } from './approval.js';
import type { Approvals, Vote } from './approvals.js';
import { FollowedValue, type Followed } from './followed.js';
import { FermataError, retry } from './server.js';

/** `loading`: nothing is known yet. `outdated`: there is no connection, or the list is read again. `failed`: the server has refused it. */
export type InboxStatus = 'loading' | 'live' | 'outdated' | 'failed';

/** The contents of an inbox. */
export interface Inbox {
  status: InboxStatus;
  /** Why the list could not be read. */
  error?: Error;
  /** In the order in which they came: those that wait for the person, and those that did. */
  approvals: readonly Approval[];
  /** The ids of those that do not exist any more, or that the person may not see any more. */
  gone: ReadonlySet<string>;
}

export interface InboxState extends Inbox {
  isConnected: boolean;
  /** Changes that came while the list was being read, which may be older than they are. */
  news: readonly Approval[];
}

export type InboxEvent =
  | { type: 'connected' }
  | { type: 'disconnected' }
  | { type: 'listed'; approvals: readonly Approval[] }
  | { type: 'failed'; error: Error }
  | { type: 'changed'; approval: Approval }
  | { type: 'gone'; id: string }
  | { type: 'tidied'; user: string | undefined };

export const EMPTY_INBOX: InboxState = {
  status: 'loading',
  approvals: [],
  gone: new Set(),
  isConnected: false,
  news: [],
};

export function applyToInbox(state: InboxState, event: InboxEvent): InboxState {
  switch (event.type) {
    case 'connected': {
      const status = state.status === 'loading' ? 'loading' : 'outdated';
      return { ...state, status, isConnected: true, news: [] };
    }
    case 'disconnected': {
      const status = state.status === 'failed' ? 'failed' : 'outdated';
      return { ...state, status, isConnected: false };
    }
    case 'listed': {
      const listed = [...event.approvals, ...state.news].reduce(withApproval, state.approvals);
      const isListed = new Set([...event.approvals, ...state.news].map(({ id }) => id));
      return {
        status: state.isConnected ? 'live' : 'outdated',
        approvals: listed,
        gone: new Set([...state.gone].filter((id) => !isListed.has(id))),
        isConnected: state.isConnected,
        news: [],
      };
    }
    case 'failed':
      return { ...state, status: 'failed', error: event.error };
    case 'changed': {
      const { approval } = event;
      const isKnown = state.approvals.some(({ id }) => id === approval.id);
      // Approvals that only others may decide about are none of this inbox.
      if (!isKnown && !isWaitingFor(undefined, approval)) return state;
      return {
        ...state,
        approvals: withApproval(state.approvals, approval),
        gone: new Set([...state.gone].filter((id) => id !== approval.id)),
        news: state.status === 'live' ? [] : [...state.news, approval],
      };
    }
    case 'gone':
      return { ...state, gone: new Set([...state.gone, event.id]) };
    case 'tidied':
      return {
        ...state,
        approvals: state.approvals.filter((one) => isWaitingFor(event.user, one) && !state.gone.has(one.id)),
        gone: new Set(),
      };
    default:
      return event satisfies never;
  }
}

/** The list with an approval in its place, or at the end if it is new. */
function withApproval(approvals: readonly Approval[], approval: Approval): readonly Approval[] {
  return approvals.some(({ id }) => id === approval.id)
    ? approvals.map((one) => (one.id === approval.id ? approval : one))
    : [...approvals, approval];
}

/** The inbox of a page. */
export class ApprovalInbox {
  readonly #approvals: Approvals;
  readonly #state = new FollowedValue<InboxState>(EMPTY_INBOX);
  #abort: AbortController | undefined;
  /** The number of connections. A list counts only if none was opened after the request for it. */
  #connections = 0;
  /** The number of changes that the stream has brought for an approval. */
  readonly #changes = new Map<string, number>();

  constructor(approvals: Approvals) {
    this.#approvals = approvals;
  }

  readonly contents: Followed<Inbox> = this.#state;

  /** Reads the list, and follows its changes. Returns the function that ends it. */
  open = (): (() => void) => {
    const abort = new AbortController();
    this.#abort?.abort();
    this.#abort = abort;
    void this.#follow(abort.signal);
    return () => {
      abort.abort();
    };
  };

  /** Begins again after a failure. */
  reload = (): void => {
    this.open();
  };

  /** Votes. A refusal rejects, and the inbox has what it says of the approval. */
  vote = async (approval: Approval, vote: Vote): Promise<void> => {
    const { id } = approval;
    const before = this.#changes.get(id);
    // The stream may have brought something newer than the reply.
    const learn = (now: Approval) => {
      if (this.#changes.get(id) === before) this.#apply({ type: 'changed', approval: now });
    };
    try {
      learn(await this.#approvals.vote(approval, vote));
    } catch (error) {
      if (!(error instanceof FermataError)) throw error;
      if (error.approval !== undefined) learn(error.approval);
      else if (error.status === 404) this.#apply({ type: 'gone', id });
      else if (error.code === 'not_yours_to_decide') await this.#readAgain(id);
      throw error;
    }
  };

  /** Takes those out that do not wait for the user. */
  tidy = (user: string | undefined): void => {
    this.#apply({ type: 'tidied', user });
  };

  #apply(event: InboxEvent) {
    this.#state.set(applyToInbox(this.#state.get(), event));
  }

  async #follow(signal: AbortSignal) {
    try {
      for await (const event of this.#approvals.follow(signal)) {
        if (signal.aborted) return;
        switch (event.type) {
          case 'open':
            this.#apply({ type: 'connected' });
            void this.#read(signal);
            break;
          case 'lost':
            this.#apply({ type: 'disconnected' });
            break;
          case 'changed': {
            const { id } = event.approval;
            this.#changes.set(id, (this.#changes.get(id) ?? 0) + 1);
            this.#apply(event);
            break;
          }
          default:
            event satisfies never;
        }
      }
    } catch (error) {
      this.#fail(error, signal);
    }
  }

  /** Reads the list. Of an approval that is not in it any more, the outcome is read. */
  async #read(signal: AbortSignal) {
    const connection = ++this.#connections;
    try {
      const listed = await retry(() => this.#list(), undefined, signal);
      if (signal.aborted || connection !== this.#connections) return;
      const before = this.#state.get();
      this.#apply({ type: 'listed', approvals: listed });
      const isCurrent = new Set([...listed, ...before.news].map(({ id }) => id));
      const left = before.approvals.filter(({ id, state }) => state === 'waiting' && !isCurrent.has(id));
      await Promise.all(left.map(({ id }) => this.#readAgain(id)));
    } catch (error) {
      this.#fail(error, signal);
    }
  }

  async #list(): Promise<Approval[]> {
    const listed: Approval[] = [];
    for await (const approval of this.#approvals.all({ mine: true })) listed.push(approval);
    return listed;
  }

  async #readAgain(id: string) {
    try {
      this.#apply({ type: 'changed', approval: await this.#approvals.get(id) });
    } catch (error) {
      if (error instanceof FermataError && error.status === 404) this.#apply({ type: 'gone', id });
      else throw error;
    }
  }

  #fail(error: unknown, signal: AbortSignal) {
    if (signal.aborted) return;
    this.#abort?.abort();
    this.#apply({ type: 'failed', error: error instanceof Error ? error : new Error(String(error)) });
  }
}
