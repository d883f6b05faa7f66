// What the server says of each call: its state, what it waits for (`data-call`), and why it has no output (the metadata of its message).
// Knows nothing of parts.

/** A set of calls that "always" can cover. */
export interface Scope {
  id: string;
  /** The calls in a word or two. */
  label: string;
  /** The calls in words. */
  covers: string;
}

/** The facts that a person needs to decide about a call. */
export interface AskedCall {
  tool: string;
  /** The name of the MCP server that offers the tool. */
  server?: string;
  /** The title of the tool. That of an MCP tool is the server's own text, and may say anything. */
  title?: string;
  input?: unknown;
  /** The input as the JSON text that runs. It is left out if it is long; `Pending` has it then. */
  inputText?: string;
  /** The scopes that "always" can have for the call, the narrowest first. */
  scopes?: Scope[];
  /** The code of the reason to ask. */
  reasonCode?: ReasonCode;
  /** The words of others in the reason: of the rule or the tool, or what was read before a memory is changed. */
  reasonDetail?: string;
  /** `false` if the person may not decide about the call. Absent from servers that do not say. */
  mayDecide?: boolean;
}

/** Who decides about a call, and who has approved it. */
export interface ApprovalDecision {
  /** Who may decide: `requester`, `user:<name>`, `group:<name>` or `channel:<name>`. Names may have `*`. */
  by: string[];
  /** The number of different people who have to approve. */
  quorum: number;
  /** `true` if the requester may not decide. */
  notRequester: boolean;
  /** The users who have approved. */
  approvedBy: string[];
  /** `true` if the person who reads this may decide. */
  mayDecide: boolean;
}

/** Reads who decides about a call; `undefined` if the server does not say, because it is of an earlier version. */
export function decisionOf(value: unknown): ApprovalDecision | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { by, quorum, notRequester, approvedBy, mayDecide } = value as Record<string, unknown>;
  return {
    by: textsIn(by),
    quorum: typeof quorum === 'number' ? quorum : 1,
    notRequester: notRequester === true,
    approvedBy: textsIn(approvedBy),
    mayDecide: mayDecide !== false,
  };
}

const textsIn = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [];

/**
 * The reason to ask a person about a call. The reason of a `rule` and of a `tool` is their own text; the others are Fermata's, and a page can
 * translate them.
 */
export type ReasonCode =
  | 'default'
  | 'rule'
  | 'chain'
  | 'memory_writes'
  | 'memory_slot'
  | 'tool_changed'
  | 'retry'
  | 'tool'
  | 'auto'
  | 'always';

/** Returns what an approval request says of its call: the `approval` of a part, as the AI SDK has it from version 7 on. */
export function askedCall(part: object): AskedCall | undefined {
  const { approval } = part as { approval?: { descriptor?: Partial<AskedCall> } };
  const { tool, ...rest } = approval?.descriptor ?? {};
  return tool === undefined ? undefined : { tool, ...rest };
}

/** The state of a call on the server, with the call, and with its input while a person is asked. */
export interface CallStatus extends Partial<AskedCall> {
  state: 'validating' | 'awaiting_approval' | 'scheduled' | 'executing' | 'success' | 'error' | 'cancelled';
  /**
   * The cause of the wait: the person's decision or reply, the decision of other people, the output of a page, the decisions about the
   * other calls of its step, a resource that another call uses, or the end of others, because no more may run at a time.
   */
  waitsFor?: 'person' | 'other_people' | 'page' | 'gate' | 'resource' | 'capacity';
  /** Who decides, while the call waits for a decision. */
  decision?: ApprovalDecision;
  /** The name of the resource that the call waits for. */
  resource?: string;
  /** The call of the same step that uses the resource; absent if another chat does. */
  heldBy?: string;
  /** The type of the failure, if the call has failed. */
  errorType?: string;
  /** The number of times that the call has begun to run, if more than one. */
  attempts?: number;
  /** The consequence of the failure. */
  strategy?: FailureStrategy;
  /** The failed call in whose place this one was made. */
  fallbackOf?: string;
  /** The failed call that a person has made again with this one. */
  retryOf?: string;
  /** `true` if a person edits the input, here or in another page. */
  editing?: boolean;
}

/** The consequence of a failure: another attempt, the model without the result, a question to the person, or the end of the run. */
export type FailureStrategy = 'retry' | 'go_on' | 'ask_person' | 'fail_run';

/** Why a call has no output. */
export interface NoOutput {
  state: 'error' | 'cancelled';
  /**
   * Of a call that has failed it is the type of the failure, such as `timeout`. A call was cancelled because it was `denied`, nobody answered
   * in time (`expired`), a person cancelled it (`by_person`), the run was `stopped`, the conversation went on (`superseded`), the run ended
   * for another reason (`run_ended`), only the first call of a step runs (`not_first`), or the person had chosen another tool (`not_chosen`).
   */
  code: string;
  /** The reason that the person or the rule gave for a denial. */
  reason?: string;
  /** The last partial output that the call had reported. */
  lastOutput?: unknown;
}

/** Returns why a call of the message has no output; `undefined` if it has one, or may still get one. Every version of the AI SDK has it. */
export function noOutputOf(message: { metadata?: unknown }, toolCallId: string): NoOutput | undefined {
  const { calls } = (message.metadata ?? {}) as { calls?: Record<string, Partial<NoOutput>> };
  const call = calls !== undefined && Object.hasOwn(calls, toolCallId) ? calls[toolCallId] : undefined;
  if (call?.state === undefined || call.code === undefined) return undefined;
  const { state, code, reason, lastOutput } = call;
  return {
    state,
    code,
    ...(reason !== undefined && { reason }),
    ...(lastOutput !== undefined && { lastOutput }),
  };
}

/** Reads a `data-call` part: the id of the call, and its status. */
export function callStatusIn(data: unknown): { toolCallId: string; status: CallStatus } {
  const { toolCallId, decision, ...status } = data as CallStatus & { toolCallId: string };
  const decides = decisionOf(decision);
  return { toolCallId, status: { ...status, ...(decides !== undefined && { decision: decides }) } };
}

/** The newest status of each call of a chat. */
export class CallStatuses {
  readonly #statuses = new Map<string, CallStatus>();
  readonly #listeners = new Set<() => void>();

  get = (toolCallId: string): CallStatus | undefined => this.#statuses.get(toolCallId);

  /** Calls a function whenever a status changes; returns what ends that. */
  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  };

  set(toolCallId: string, status: CallStatus) {
    this.#statuses.set(toolCallId, status);
    for (const listener of [...this.#listeners]) listener();
  }
}
