// Requests about approvals of all chats and owners: lists, single approvals, votes, and the stream of changes.

import { approvalIn, type Approval } from './approval.js';
import { eventsIn } from './events.js';
import { unlessLeaving } from './leaving.js';
import { eventsOf, FermataError, pause, retry, type Server } from './server.js';

/** Which approvals are listed. */
export interface ApprovalFilter {
  /** `waiting` by default. Approvals that wait come oldest first, all others newest first. */
  state?: 'waiting' | 'settled' | 'all';
  tool?: string;
  /** `true` lists only approvals that the person can decide about now. */
  mine?: boolean;
}

/** A part of a list. */
export interface ApprovalPage {
  approvals: Approval[];
  /** The `before` of the next page; absent at the end. */
  next?: string;
}

/** The decision of the person. */
export interface Vote {
  approved: boolean;
  reason?: string;
  /** The JSON text to run in place of the call's `inputText`. */
  inputText?: string;
}

/** A change that the server reports, or a change of the connection that reports them. */
export type ApprovalEvent =
  /** The connection is open. Changes that came before it may be missing. */
  | { type: 'open' }
  | { type: 'changed'; approval: Approval }
  /** The connection broke, or could not be opened. Another attempt follows. */
  | { type: 'lost' };

/** The approvals that the person has requested or may decide about. */
export interface Approvals {
  list(filter?: ApprovalFilter & { limit?: number; before?: string }): Promise<ApprovalPage>;
  /** Lists all approvals. Each page is requested when it is needed. */
  all(filter?: ApprovalFilter): AsyncGenerator<Approval, void>;
  get(id: string): Promise<Approval>;
  /**
   * Votes about the input that the approval was read with. Rejects with `changed` or `already_answered` and the `approval` as it is now, with
   * `not_yours_to_decide`, or with `not_found`.
   */
  vote(approval: Pick<Approval, 'id' | 'inputHash'>, vote: Vote): Promise<Approval>;
  /**
   * Follows changes until the signal is aborted, over as many connections as it takes.
   *
   * @throws FermataError if the server refuses the stream.
   */
  follow(signal: AbortSignal): AsyncGenerator<ApprovalEvent, void>;
}

/** The user of the requests' headers. */
export interface Me {
  /** `anyone` if the server knows no users. */
  user: string;
  groups: string[];
}

/** The approvals that `all` asks for at a time. */
const APPROVALS_AT_ONCE = 100;
/** The server sends something more often than this, in milliseconds. */
const LONGEST_SILENCE = 45_000;

export function approvalsOf(server: Server): Approvals {
  const root = server.beside('approvals');
  const urlOf = (id: string) => `${root}/${encodeURIComponent(id)}`;
  const approvals: Approvals = {
    list: async (filter = {}) => {
      const given = Object.entries(filter).filter(([, value]) => value !== undefined);
      const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
      const url = search === '' ? root : `${root}?${search}`;
      const page = await server.json<{ approvals: unknown[]; next?: string }>(url);
      const { next } = page;
      const listed = page.approvals.map(approvalIn).filter((one) => one !== undefined);
      return { approvals: listed, ...(next !== undefined && { next }) };
    },
    all: async function* (filter) {
      let before: string | undefined;
      do {
        const part = { ...filter, limit: APPROVALS_AT_ONCE, ...(before !== undefined && { before }) };
        const page = await approvals.list(part);
        yield* page.approvals;
        before = page.next;
      } while (before !== undefined);
    },
    get: async (id) => known(await server.json(urlOf(id))),
    vote: async ({ id, inputHash }, { approved, reason, inputText }) => {
      const body = JSON.stringify({ approved, reason, inputHash });
      // The text is sent as it is, because JavaScript cannot write every number that it may have.
      const edited = inputText === undefined ? body : `${body.slice(0, -1)},"input":${inputText}}`;
      // The same vote again changes nothing.
      return known(await retry(() => server.json(urlOf(id), { method: 'POST', body: edited })));
    },
    follow: (signal) => followChanges(server, `${root}/events`, signal),
  };
  return approvals;
}

/** Reads the user of the requests; `undefined` if the server is of a version without approvals of several people. */
export async function readMe(server: Server): Promise<Me | undefined> {
  try {
    return await server.json<Me>(server.beside('me'));
  } catch (error) {
    if (error instanceof FermataError && error.status === 404) return undefined;
    throw error;
  }
}

function known(reply: unknown): Approval {
  const approval = approvalIn(reply);
  if (approval === undefined) throw new TypeError('The reply of the server is no approval.');
  return approval;
}

async function* followChanges(
  server: Server,
  url: string,
  signal: AbortSignal,
): AsyncGenerator<ApprovalEvent, void> {
  let position: string | undefined;
  for (let attempt = 0; await unlessLeaving(signal); attempt++) {
    const response = await server.askForEvents(url, position, signal);
    if (response !== undefined) {
      const body = eventsOf(response);
      yield { type: 'open' };
      for await (const { id, data } of eventsIn(body, LONGEST_SILENCE, signal)) {
        attempt = 0;
        position = id ?? position;
        const approval = data === undefined ? undefined : changedIn(data);
        if (approval !== undefined) yield { type: 'changed', approval };
      }
    }
    if (signal.aborted) return;
    yield { type: 'lost' };
    await pause(attempt, signal);
  }
}

/** The approval of an event. Events of other types are for later versions of this package. */
function changedIn(data: string): Approval | undefined {
  const event = JSON.parse(data) as { type?: unknown; approval?: unknown };
  return event.type === 'approval' ? approvalIn(event.approval) : undefined;
}
