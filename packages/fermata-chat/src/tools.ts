// Runs the page's tools: one tab runs a call, once, and remembers the outcome until the server has it.

import { sendableError, sendableOutput, type Outcome, type Sendable } from './outcomes.js';
import { isInvalid, isSettledElsewhere } from './server.js';
import type { BrowserTool } from './transport.js';

/** A call that is to be run. */
export interface ToolRun {
  toolCallId: string;
  tool: BrowserTool;
  input: unknown;
  /** `true` if the call may have been settled or run before. */
  isReplay: boolean;
  /** Asks the server whether the call still waits for a page. */
  isPending: () => Promise<boolean>;
  /** Sends the outcome to the server, again while `goesOn` returns `true`. */
  deliver: (outcome: Outcome, goesOn: () => boolean) => Promise<void>;
  /** Tells the page that the outcome of the call was not delivered as it was. */
  report: (error: unknown) => void;
}

/** The key of the calls that the server has had the outcome of lately: other tabs may be slow, and not have heard of it yet. */
const SETTLED = 'fermata settled';
/** For how long they are remembered, in milliseconds. */
const SETTLED_FOR = 60_000;

export class ToolRunner {
  readonly #api: string;
  readonly #chatId: string;
  readonly #begun = new Set<string>();
  #stop = new AbortController();

  constructor(api: string, chatId: string) {
    this.#api = api;
    this.#chatId = chatId;
  }

  /** Gives up what runs: its run was stopped or superseded, so the server has settled the calls. */
  stop(): void {
    this.#stop.abort();
    this.#stop = new AbortController();
  }

  /** The server has the outcome. */
  forget(toolCallId: string): void {
    const key = this.#key(toolCallId);
    keep(SETTLED, { ...settled(), [key]: Date.now() });
    storage()?.removeItem(key);
  }

  async run(call: ToolRun): Promise<void> {
    const { toolCallId, isReplay, isPending } = call;
    if (this.#begun.has(toolCallId)) return;
    this.#begun.add(toolCallId);
    await withLock(this.#key(toolCallId), async (hasWaited) => {
      const { signal } = this.#stop;
      try {
        const mayBeSettled = isReplay || hasWaited || this.#key(toolCallId) in settled();
        if (mayBeSettled && !(await isPending())) {
          this.forget(toolCallId);
          return;
        }
        const outcome = await this.#outcomeOf(call, signal);
        if (signal.aborted) this.forget(toolCallId);
        else await this.#deliver(outcome, call, signal);
      } catch (error) {
        if (isSettledElsewhere(error) || signal.aborted) this.forget(toolCallId);
        else {
          // The outcome is delivered when the chat is opened again.
          this.#begun.delete(toolCallId);
          call.report(error);
        }
      }
    });
  }

  /** Sends the outcome until the server takes it. An output that the server refuses becomes the call's error. */
  async #deliver(outcome: Outcome, { deliver, report }: ToolRun, signal: AbortSignal): Promise<void> {
    const goesOn = () => !signal.aborted;
    try {
      await deliver(outcome, goesOn);
    } catch (error) {
      if (!isInvalid(error) || 'errorText' in outcome) throw error;
      report(error);
      await deliver(sendableError(error).outcome, goesOn);
    }
  }

  async #outcomeOf({ toolCallId, tool, input, report }: ToolRun, signal: AbortSignal): Promise<Outcome> {
    const known = this.#recall(toolCallId);
    if (known !== undefined && known !== 'begun') return known;
    if (known === 'begun' && tool.repeatable !== true) {
      const errorText =
        'The page was closed or reloaded while this tool ran in it; whether it took effect is not known.';
      return { state: 'output-error', errorText };
    }
    keep(this.#key(toolCallId), 'begun');
    let sendable: Sendable;
    try {
      sendable = sendableOutput(await tool.execute?.(input, { toolCallId, signal }));
    } catch (error) {
      sendable = sendableError(error);
    }
    keep(this.#key(toolCallId), sendable.outcome);
    if (sendable.error !== undefined && !signal.aborted) report(sendable.error);
    return sendable.outcome;
  }

  #key(toolCallId: string) {
    return `fermata ${this.#api} ${this.#chatId} ${toolCallId}`;
  }

  #recall(toolCallId: string): Outcome | 'begun' | undefined {
    const known = storage()?.getItem(this.#key(toolCallId)) ?? null;
    return known === null ? undefined : (JSON.parse(known) as Outcome | 'begun');
  }
}

/** The calls that were settled lately, with the time. */
function settled(): Record<string, number> {
  const all = JSON.parse(storage()?.getItem(SETTLED) ?? '{}') as Record<string, number>;
  const isRecent = ([, at]: [string, number]) => Date.now() - at < SETTLED_FOR;
  return Object.fromEntries(Object.entries(all).filter(isRecent));
}

function keep(key: string, what: unknown) {
  try {
    storage()?.setItem(key, JSON.stringify(what));
  } catch {
    // It is full; the call still runs once in this page.
  }
}

/** The storage for state that must survive the page; `undefined` if the browser forbids it. */
function storage(): Storage | undefined {
  try {
    return (globalThis as Partial<typeof globalThis>).localStorage;
  } catch {
    return undefined;
  }
}

/** Does something while no other tab does it. */
async function withLock(name: string, work: (hasWaited: boolean) => Promise<void>): Promise<void> {
  const locks = (globalThis as Partial<typeof globalThis>).navigator?.locks;
  if (locks === undefined) return work(false);
  const progress = { hasBegun: false };
  const begin = (hasWaited: boolean) => {
    progress.hasBegun = true;
    return work(hasWaited);
  };
  try {
    const isDone = await locks.request(name, { ifAvailable: true }, async (lock) => {
      if (lock === null) return false;
      await begin(false);
      return true;
    });
    if (!isDone) await locks.request(name, () => begin(true));
  } catch (error) {
    if (progress.hasBegun) throw error;
    // Locks are refused in a page without an origin of its own, such as a sandboxed frame: it is the only tab.
    await work(false);
  }
}
