// A fake server for approvals. It has the rules for lists, votes and events that matter to pages.

import { createHash } from 'node:crypto';
import type { Approval } from '../src/index.js';

const AT = '2026-03-02T11:03:00Z';

export const hashOf = (text: string) => createHash('sha256').update(text).digest('hex');

/** A refund that the finance group decides about. */
export function approval(id: string, more: Partial<Approval> = {}): Approval {
  const input = more.input ?? { order: 7, amount: 120 };
  const inputText = more.inputText ?? JSON.stringify(input);
  return {
    id,
    state: 'waiting',
    tool: 'refund',
    title: 'Refund an order',
    server: null,
    description: `Refund order ${id}`,
    details: null,
    reason: 'Refunds over 100 € need finance.',
    requestedBy: 'dave',
    requestedAt: AT,
    expiresAt: null,
    settled: null,
    ...more,
    input,
    inputText,
    inputHash: hashOf(inputText),
    decision: {
      by: ['group:finance'],
      quorum: 1,
      notRequester: true,
      approvedBy: [],
      mayDecide: true,
      ...more.decision,
    },
  };
}

interface Body {
  approved: boolean;
  reason?: string;
  input?: unknown;
  inputHash?: string;
}

const reply = (body: unknown, status = 200) =>
  new Response(JSON.stringify(body), {
    status,
    headers: { 'content-type': status < 400 ? 'application/json' : 'application/problem+json' },
  });

export const problem = (status: number, code: string, detail: string, more: object = {}) =>
  reply({ code, detail, ...more }, status);

/** Answers `/api/approvals` and `/api/me` for one user at a time. */
export class ApprovalServer {
  readonly requests: string[] = [];
  /** Other replies, by the beginning of the request. */
  instead: Record<string, () => Response | undefined | Promise<Response | undefined>> = {};
  readonly #groups: Record<string, readonly string[]>;
  readonly #approvals = new Map<string, Approval>();
  readonly #log: Approval[] = [];
  readonly #readers = new Set<{ user: string; send: (place: number) => void; end: () => void }>();

  constructor(groups: Record<string, readonly string[]>, approvals: Approval[] = []) {
    this.#groups = groups;
    for (const one of approvals) this.#approvals.set(one.id, one);
  }

  /** The number of open event streams. */
  get readers(): number {
    return this.#readers.size;
  }

  /** Adds an approval, or changes one. Those who may see it receive the change. */
  put(approval: Approval) {
    this.#approvals.set(approval.id, approval);
    this.#log.push(approval);
    for (const reader of this.#readers) reader.send(this.#log.length - 1);
  }

  /** Changes an approval without an event, as if the server had restarted since. */
  putUnheard(approval: Approval) {
    this.#approvals.set(approval.id, approval);
  }

  remove(id: string) {
    this.#approvals.delete(id);
  }

  settle(id: string, by: string | null, state: Approval['state'], reason?: string) {
    const settled = { by, at: AT, channel: by && 'api', ...(reason !== undefined && { reason }) };
    this.put({ ...this.#known(id), state, settled });
  }

  /** Replaces the input, as the edit of another decider does. */
  edit(id: string, by: string, input: unknown) {
    const known = this.#known(id);
    this.put(
      approval(id, {
        ...known,
        input,
        inputText: JSON.stringify(input),
        decision: { ...known.decision, approvedBy: [by] },
      }),
    );
  }

  /** Ends the event streams, as a lost connection does. */
  breakStreams() {
    for (const reader of [...this.#readers]) reader.end();
  }

  /** The `fetch` of a user. */
  as(user: string): typeof fetch {
    return async (url, init) => {
      const method = init?.method ?? 'GET';
      const { pathname, search, searchParams } = new URL(url as string, 'http://server');
      const said = typeof init?.body === 'string' ? ` ${init.body}` : '';
      const request = `${method} ${pathname}${search}${said}`;
      this.requests.push(request);
      const [, other] = Object.entries(this.instead).find(([begin]) => request.startsWith(begin)) ?? [];
      const answer = await other?.();
      if (answer !== undefined) return answer;
      if (pathname === '/api/me') return reply({ user, groups: this.#groups[user] ?? [] });
      const id = decodeURIComponent(pathname.slice('/api/approvals'.length + 1));
      if (id === '') return reply(this.#page(user, searchParams));
      if (id === 'events')
        return this.#events(user, new Headers(init?.headers).get('last-event-id'), init?.signal);
      const known = this.#approvals.get(id);
      if (known === undefined || !this.#maySee(user, known))
        return problem(404, 'not_found', 'There is no such approval.');
      if (method === 'GET') return reply(this.#seenBy(user, known));
      return this.#vote(user, known, JSON.parse(said) as Body);
    };
  }

  #known(id: string): Approval {
    const known = this.#approvals.get(id);
    if (known === undefined) throw new Error(`there is no approval ${id}`);
    return known;
  }

  #mayDecide(user: string, { decision, requestedBy }: Approval): boolean {
    if (decision.notRequester && user === requestedBy) return false;
    const groups = this.#groups[user] ?? [];
    return decision.by.some(
      (by) =>
        by === `user:${user}` ||
        groups.some((group) => by === `group:${group}`) ||
        (by === 'requester' && user === requestedBy),
    );
  }

  #maySee(user: string, approval: Approval): boolean {
    const { requestedBy, decision } = approval;
    return user === requestedBy || decision.approvedBy.includes(user) || this.#mayDecide(user, approval);
  }

  #seenBy(user: string, { chat, ...approval }: Approval): Approval {
    const decision = { ...approval.decision, mayDecide: this.#mayDecide(user, approval) };
    return { ...approval, decision, ...(chat && user === approval.requestedBy && { chat }) };
  }

  #page(user: string, search: URLSearchParams) {
    const state = search.get('state') ?? 'waiting';
    const found = [...this.#approvals.values()].filter(
      (one) =>
        this.#maySee(user, one) &&
        (state === 'all' || (one.state === 'waiting') === (state === 'waiting')) &&
        one.tool === (search.get('tool') ?? one.tool) &&
        (search.get('mine') !== 'true' || this.#mayDecide(user, one)),
    );
    if (state !== 'waiting') found.reverse();
    const limit = Number(search.get('limit') ?? 50);
    const from = found.findIndex(({ id }) => id === search.get('before')) + 1;
    const page = found.slice(from, from + limit);
    const last = found.length > from + limit ? page.at(-1) : undefined;
    return { approvals: page.map((one) => this.#seenBy(user, one)), ...(last && { next: last.id }) };
  }

  #vote(user: string, known: Approval, { approved, reason, input, inputHash }: Body): Response {
    const now = (approval: Approval) => this.#seenBy(user, approval);
    if (known.settled !== null) {
      const isSame = known.settled.by === user && (known.state === 'approved') === approved;
      if (isSame) return reply(now(known));
      return problem(409, 'already_answered', 'This was answered already.', { approval: now(known) });
    }
    if (!this.#mayDecide(user, known))
      return problem(403, 'not_yours_to_decide', `These may decide: ${known.decision.by.join(', ')}.`);
    if (inputHash !== undefined && inputHash !== known.inputHash)
      return problem(409, 'changed', 'The input has changed.', { approval: now(known) });
    const edited =
      input === undefined ? known : approval(known.id, { ...known, input, inputText: JSON.stringify(input) });
    const before = input === undefined ? known.decision.approvedBy : [];
    const approvedBy = approved ? [...new Set([...before, user])] : before;
    const isOver = !approved || approvedBy.length >= known.decision.quorum;
    const settled = { by: user, at: AT, channel: 'api', ...(reason !== undefined && { reason }) };
    this.put({
      ...edited,
      decision: { ...edited.decision, approvedBy },
      ...(isOver && { state: approved ? 'approved' : 'denied', settled }),
    });
    return reply(now(this.#known(known.id)));
  }

  #events(user: string, after: string | null, signal: AbortSignal | null | undefined): Response {
    const bytes = new TextEncoder();
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        const send = (place: number) => {
          const changed = this.#log[place];
          if (changed === undefined || !this.#maySee(user, changed)) return;
          const data = JSON.stringify({ type: 'approval', approval: this.#seenBy(user, changed) });
          controller.enqueue(bytes.encode(`id: ${place}\ndata: ${data}\n\n`));
        };
        const reader = {
          user,
          send,
          end: () => {
            this.#readers.delete(reader);
            controller.close();
          },
        };
        this.#readers.add(reader);
        signal?.addEventListener('abort', () => {
          if (this.#readers.delete(reader)) controller.error(new Error('aborted'));
        });
        controller.enqueue(bytes.encode(': open\n\n'));
        const from = after === null ? this.#log.length : Number(after) + 1;
        for (let place = from; place < this.#log.length; place++) send(place);
      },
    });
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  }
}
