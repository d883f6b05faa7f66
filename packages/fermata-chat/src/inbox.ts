// The approvals that wait for the person, kept up to date. `applyToInbox` makes every decision without I/O; `ApprovalInbox` reads the list
// and follows its changes.
//
// Each connection is opened before the list is read, so no change is lost between the two. The list is read again with each connection,
// because a restarted server has lost its events. An inbox is `live`, and so complete, only while it has both.
//
// A settled approval, or one that waits for others, keeps its place until `tidy`. Nothing moves under a person's finger, and a late click
// finds the outcome. `show` adds an approval even if it does not wait for the person.

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
  /** The approvals that wait for the person, or did until now, in their order of arrival. */
  approvals: readonly Approval[];
  /** The ids of approvals that do not exist, or that the person may not see. */
  gone: ReadonlySet<string>;
}

export interface InboxState extends Inbox {
  isConnected: boolean;
  /** Changes that came while the list was being read, which may be older than they are. */
  news: readonly Approval[];
  /** The ids of approvals to show even if they do not wait for the person. */
  wanted: ReadonlySet<string>;
}

export type InboxEvent =
  | { type: 'opened' }
  | { type: 'connected' }
  | { type: 'disconnected' }
  | { type: 'listed'; approvals: readonly Approval[] }
  | { type: 'failed'; error: Error }
  | { type: 'changed'; approval: Approval }
  | { type: 'gone'; id: string }
  | { type: 'wanted'; id: string }
  | { type: 'tidied'; user: string | undefined };

export const EMPTY_INBOX: InboxState = {
  status: 'loading',
  approvals: [],
  gone: new Set(),
  isConnected: false,
  news: [],
  wanted: new Set(),
};

export function applyToInbox(state: InboxState, event: InboxEvent): InboxState {
  switch (event.type) {
    case 'opened':
    case 'connected': {
      const status = state.status === 'loading' ? 'loading' : 'outdated';
      return { ...state, status, isConnected: event.type === 'connected', news: [] };
    }
    case 'disconnected':
      return { ...state, status: 'outdated', isConnected: false };
    case 'listed': {
      const listed = [...event.approvals, ...state.news].reduce(withApproval, state.approvals);
      const isListed = new Set([...event.approvals, ...state.news].map(({ id }) => id));
      return {
        status: state.isConnected ? 'live' : 'outdated',
        approvals: listed,
        gone: new Set([...state.gone].filter((id) => !isListed.has(id))),
        isConnected: state.isConnected,
        news: [],
        wanted: state.wanted,
      };
    }
    case 'failed':
      return { ...state, status: 'failed', error: event.error };
    case 'changed': {
      const { approval } = event;
      const isKnown = state.approvals.some(({ id }) => id === approval.id);
      // An inbox has no approvals that only others may decide about, unless the page wants them.
      if (!isKnown && !isWaitingFor(undefined, approval) && !state.wanted.has(approval.id)) return state;
      return {
        ...state,
        approvals: withApproval(state.approvals, approval),
        gone: new Set([...state.gone].filter((id) => id !== approval.id)),
        news: state.status === 'live' ? [] : [...state.news, approval],
      };
    }
    case 'gone':
      return { ...state, gone: new Set([...state.gone, event.id]) };
    case 'wanted':
      return { ...state, wanted: new Set([...state.wanted, event.id]) };
    case 'tidied':
      return {
        ...state,
        approvals: state.approvals.filter((one) => isWaitingFor(event.user, one) && !state.gone.has(one.id)),
        gone: new Set(),
        wanted: new Set(),
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
  /** Ends what was opened last. */
  #opened: AbortController | undefined;
  /** Ends its reader. A reload puts another one in its place. */
  #reader: AbortController | undefined;
  /** The number of requests and events so far: the time of each. */
  #now = 0;
  /** The time of what is known of an approval. A reply is as old as its request. */
  readonly #learned = new Map<string, number>();

  constructor(approvals: Approvals) {
    this.#approvals = approvals;
  }

  readonly contents: Followed<Inbox> = this.#state;

  /** Reads the list, and follows its changes. Returns the function that ends it, even after a reload. */
  open = (): (() => void) => {
    this.#opened?.abort();
    const opened = new AbortController();
    opened.signal.addEventListener('abort', () => this.#reader?.abort());
    this.#opened = opened;
    this.#begin();
    return () => {
      opened.abort();
    };
  };

  /** Begins again after a failure. An inbox that is closed stays so. */
  reload = (): void => {
    if (this.#opened?.signal.aborted === false) this.#begin();
  };

  /** Votes. A refusal rejects, and the inbox has what it says of the approval. */
  vote = async (approval: Approval, vote: Vote): Promise<void> => {
    const { id } = approval;
    const asked = ++this.#now;
    try {
      this.#learn(await this.#approvals.vote(approval, vote), asked);
    } catch (error) {
      if (!(error instanceof FermataError)) throw error;
      if (error.approval !== undefined) this.#learn(error.approval, asked);
      // A person who is not signed in cannot read it. The next connection reads an approval that cannot be read now.
      else if (error.status !== 401) await this.#readAgain(id, this.#reader?.signal).catch(() => undefined);
      throw error;
    }
  };

  /** Shows an approval until `tidy`, even if it does not wait for the person. One that they may not see is `gone`. */
  show = (id: string): void => {
    this.#apply({ type: 'wanted', id });
    // Before the inbox is live, the approval is read after the list.
    if (this.#state.get().status === 'live')
      void this.#readAgain(id, this.#reader?.signal).catch(() => undefined);
  };

  /** Takes those out that do not wait for the user. */
  tidy = (user: string | undefined): void => {
    this.#apply({ type: 'tidied', user });
  };

  #apply(event: InboxEvent) {
    this.#state.set(applyToInbox(this.#state.get(), event));
  }

  /** Takes an approval over, unless something newer is known of it. */
  #learn(approval: Approval, at: number) {
    if (at < (this.#learned.get(approval.id) ?? 0)) return;
    this.#learned.set(approval.id, at);
    this.#apply({ type: 'changed', approval });
  }

  #begin() {
    this.#reader?.abort();
    this.#reader = new AbortController();
    this.#apply({ type: 'opened' });
    void this.#follow(this.#reader.signal);
  }

  async #follow(signal: AbortSignal) {
    /** Ends the reading of the list for the newest connection. */
    let connection: AbortController | undefined;
    signal.addEventListener('abort', () => connection?.abort());
    try {
      for await (const event of this.#approvals.follow(signal)) {
        if (signal.aborted) return;
        switch (event.type) {
          case 'open':
            connection?.abort();
            connection = new AbortController();
            this.#apply({ type: 'connected' });
            void this.#read(connection.signal);
            break;
          case 'lost':
            this.#apply({ type: 'disconnected' });
            break;
          case 'changed':
            this.#learn(event.approval, ++this.#now);
            break;
          default:
            event satisfies never;
        }
      }
    } catch (error) {
      this.#fail(error, signal);
    }
  }

  /** Reads the list, and each approval that is shown without being in it. */
  async #read(signal: AbortSignal) {
    try {
      const listed = await retry(() => this.#list(signal), isWorthIt, signal);
      if (signal.aborted) return;
      const before = this.#state.get();
      this.#apply({ type: 'listed', approvals: listed });
      const isCurrent = new Set([...listed, ...before.news].map(({ id }) => id));
      const waited = before.approvals.filter(({ state }) => state === 'waiting').map(({ id }) => id);
      const missing = [...new Set([...waited, ...before.wanted])].filter((id) => !isCurrent.has(id));
      await Promise.all(missing.map((id) => this.#readAgain(id, signal, isWorthIt)));
    } catch (error) {
      this.#fail(error, signal);
    }
  }

  async #list(signal: AbortSignal): Promise<Approval[]> {
    const listed: Approval[] = [];
    for await (const approval of this.#approvals.all({ mine: true })) {
      if (signal.aborted) break;
      listed.push(approval);
    }
    return listed;
  }

  async #readAgain(id: string, signal: AbortSignal | undefined, goesOn?: () => boolean) {
    const asked = ++this.#now;
    try {
      this.#learn(await retry(() => this.#approvals.get(id), goesOn, signal), asked);
    } catch (error) {
      if (!(error instanceof FermataError) || error.code !== 'not_found') throw error;
      this.#apply({ type: 'gone', id });
    }
  }

  #fail(error: unknown, signal: AbortSignal) {
    if (signal.aborted) return;
    this.#reader?.abort();
    this.#apply({ type: 'failed', error: error instanceof Error ? error : new Error(String(error)) });
  }
}

/** A connection asks for its list again until the server answers or refuses. */
const isWorthIt = () => true;
