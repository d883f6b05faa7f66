// What the server says of each call: its state, and what it waits for (`data-call`). Knows nothing of parts.

/** A set of calls that "always" can cover. */
export interface Scope {
  id: string;
  /** The calls in a word or two. */
  label: string;
  /** The calls in words. */
  covers: string;
}

/** What a person has to know of a call to decide about it. */
export interface AskedCall {
  tool: string;
  /** The name of the MCP server that offers the tool. */
  server?: string;
  /** The title of the tool. That of an MCP tool is the server's own text, and may say anything. */
  title?: string;
  input?: unknown;
  /** The input as the JSON text that runs. It is left out if it is long; `Pending` has it then. */
  inputText?: string;
  /** What "always" can mean for the call, the narrowest first. */
  scopes?: Scope[];
}

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
   * What the call waits for: a person's decision or reply, the output of a page, the decisions about the other
   * calls of its step, a resource that another call uses, or the end of others, because no more may run at a time.
   */
  waitsFor?: 'person' | 'page' | 'gate' | 'resource' | 'capacity';
  /** The name of the resource that the call waits for. */
  resource?: string;
  /** The type of the failure, if the call has failed. */
  errorType?: string;
  /** How often the call has begun to run, if that was more than once. */
  attempts?: number;
  /** What follows the failure. */
  strategy?: FailureStrategy;
  /** The failed call in whose place this one was made. */
  fallbackOf?: string;
  /** The failed call that a person has made again with this one. */
  retryOf?: string;
  /** Whether a person edits the input, here or in another page. */
  editing?: boolean;
}

/** What follows a failure: another attempt, the model without the result, a question to the person, or the end of the run. */
export type FailureStrategy = 'retry' | 'go_on' | 'ask_person' | 'fail_run';

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
