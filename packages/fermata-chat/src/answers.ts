// Tells the server about calls: the answers of a person and of the page's own tools, and that a call is cancelled, edited or made again.
// An answer is sent before the AI SDK shows it.

import { askedCall, type CallStatus } from './calls.js';
import { editedText } from './exact.js';
import type { ChatFollower } from './follower.js';
import { sendableError, sendableOutput, type Outcome } from './outcomes.js';
import { findCall, isOpen, lastStepOf } from './parts.js';
import type { InputPreview, Pending } from './record.js';
import { isSettledElsewhere, retry } from './server.js';

export interface ToolOutput {
  tool: string;
  toolCallId: string;
  state?: 'output-available' | 'output-error';
  output?: unknown;
  errorText?: string;
}

export interface ApprovalResponse {
  /** The approval's id. */
  id: string;
  approved: boolean;
  reason?: string;
  /** Which later calls this is for: `true` for the first of the call's scopes in this chat. */
  always?: boolean | Always;
  /**
   * The input to run instead of the model's. Numbers that JavaScript cannot read exactly stay as they were, if they are in their old
   * places; otherwise this rejects with a `RangeError`.
   */
  input?: unknown;
  /** The same as JSON text: the edited `inputText` of the call. */
  inputText?: string;
}

/** The meaning of "always" in an answer. */
export interface Always {
  /** The id of one of the call's scopes; the first one if it is left out. */
  scope?: string;
  /** The reach of the answer: this chat, or all chats of the person. */
  for?: 'chat' | 'owner';
  /** The duration of the answer, such as `24h`. It has no end if this is left out. */
  until?: string;
}

export interface ElicitationAnswer {
  elicitationId: string;
  action: 'accept' | 'decline' | 'cancel';
  content?: Record<string, unknown>;
}

/** The reply to an answer. */
interface Answered {
  calls: {
    toolCallId: string;
    state: CallStatus['state'];
    /** The calls of the step that still wait for a person. */
    waitingFor: string[];
    /** `true` if the call runs only when those are decided. */
    gateClosed?: boolean;
    /** The other calls that were asked about and that the answer lets run. */
    alsoApproved?: string[];
  }[];
}

/** The AI SDK's own methods, and one that only some versions have. They show an answer, and go on with the chat. */
export interface Stock {
  addToolOutput: (output: ToolOutput) => PromiseLike<void>;
  addToolApprovalResponse?: (response: {
    id: string;
    approved: boolean;
    reason?: string;
  }) => PromiseLike<void>;
}

export class Answers {
  /** Known once the AI SDK's chat is constructed. */
  stock!: Stock;
  readonly #follower: ChatFollower;

  constructor(follower: ChatFollower) {
    this.#follower = follower;
  }

  /** Delivers an answer. */
  async answer(fields: object, goesOn?: () => boolean): Promise<Answered> {
    const { server } = this.#follower.transport;
    const body = JSON.stringify({ chatId: this.#follower.id, ...fields });
    // Below the chat endpoint, so that one path prefix is enough for a proxy.
    const send = () => server.json<Answered>(`${server.api}/tool-result`, { method: 'POST', body });
    this.#follower.record.noteAnswer();
    try {
      const answered = await retry(send, goesOn).finally(() => {
        this.#follower.record.noteAnswer();
      });
      if (!this.#follower.isBusy()) {
        // No stream reports it.
        const { calls } = this.#follower.known;
        for (const { toolCallId, state, gateClosed } of answered.calls)
          calls.set(toolCallId, {
            // A vote that is not enough changes nothing else.
            ...(state === 'awaiting_approval' && calls.get(toolCallId)),
            state,
            ...(gateClosed === true && { waitsFor: 'gate' }),
          });
        this.#follower.tabs.tell();
        // What the AI SDK would go on with is no longer the last message.
        if (this.#follower.chat.messages.at(-1)?.role === 'user') void this.#follower.refresh();
      }
      return answered;
    } catch (error) {
      if (isSettledElsewhere(error) && !this.#follower.isBusy()) void this.#follower.refresh();
      throw error;
    }
  }

  async addToolOutput({ tool, toolCallId, state, output, errorText }: ToolOutput): Promise<void> {
    const { outcome, error } =
      state === 'output-error' ? sendableError(errorText ?? '') : sendableOutput(output);
    if (error !== undefined) this.#follower.report(error);
    await this.#addOutcome(tool, toolCallId, outcome);
  }

  /** Delivers the outcome of a call, and shows it. */
  async #addOutcome(
    tool: string,
    toolCallId: string,
    outcome: Outcome,
    goesOn?: () => boolean,
  ): Promise<void> {
    const answer = 'output' in outcome ? outcome : { errorText: outcome.errorText };
    await this.answer({ toolCallId, ...answer }, goesOn);
    this.#follower.tools.forget(toolCallId);
    const part = findCall(this.#follower.chat.messages, (part) => part.toolCallId === toolCallId);
    if (part === undefined || !isOpen(part)) return;
    this.#follower.answered.add(toolCallId);
    await this.stock.addToolOutput({ tool, toolCallId, ...outcome });
  }

  async addToolApprovalResponse(response: ApprovalResponse): Promise<void> {
    const { id, approved, reason, always, input } = response;
    const inputText =
      input === undefined ? response.inputText : editedText(await this.#inputTextOf(id, input), input);
    const { calls } = await this.answer({ approvalId: id, approved, reason, always, inputText });
    if (this.stock.addToolApprovalResponse === undefined) {
      // Version 5 has no state for a call that was approved; what follows is in the stream.
      if (!this.#follower.isBusy()) this.#follower.dispatch({ type: 'refresh' });
      return;
    }
    const waiting = calls.flatMap((call) => call.waitingFor);
    const alsoApproved = calls.flatMap((call) => call.alsoApproved ?? []);
    const part = findCall(this.#follower.chat.messages, (part) => part.approval?.id === id);
    if (part !== undefined && !approved && part.state === 'approval-responded') {
      // An approval is taken back. The AI SDK leaves a part alone that has its response.
      if (!this.#follower.isBusy()) this.#follower.dispatch({ type: 'refresh' });
      return;
    }
    for (const other of lastStepOf(this.#follower.chat.messages.at(-1))) {
      if (other.state !== 'approval-requested' || other.approval === undefined) continue;
      const isThis = other.approval.id === id;
      if (!isThis && !alsoApproved.includes(other.toolCallId)) continue;
      this.#follower.answered.add(other.toolCallId);
      const mine = { approved, ...(reason !== undefined && { reason }) };
      await this.stock.addToolApprovalResponse({
        id: other.approval.id,
        ...(isThis ? mine : { approved: true }),
      });
    }
    const isBehind = lastStepOf(this.#follower.chat.messages.at(-1)).some(
      (other) => other.state === 'approval-requested' && !waiting.includes(other.toolCallId),
    );
    // Somebody else has decided about what this page shows as waiting.
    if (isBehind && !this.#follower.isBusy()) this.#follower.dispatch({ type: 'refresh' });
  }

  /** The input of a call that waits for a decision, as it is on the server. Of a call that waits no longer the answer will be refused. */
  async #inputTextOf(approvalId: string, edited: unknown): Promise<string> {
    const part = findCall(this.#follower.chat.messages, (part) => part.approval?.id === approvalId);
    const known = part && (askedCall(part) ?? this.#follower.known.calls.get(part.toolCallId))?.inputText;
    if (known !== undefined) return known;
    const { server } = this.#follower.transport;
    const url = server.chatUrl(this.#follower.id, '/pending');
    const { pending } = await retry(() => server.json<{ pending: Pending[] }>(url));
    return pending.find((asked) => asked.approvalId === approvalId)?.inputText ?? JSON.stringify(edited);
  }

  async cancelCall(toolCallId: string): Promise<void> {
    const { server } = this.#follower.transport;
    const url = server.chatUrl(this.#follower.id, `/calls/${encodeURIComponent(toolCallId)}/cancel`);
    await retry(() => server.json(url, { method: 'POST' }));
    if (!this.#follower.isBusy()) void this.#follower.refresh();
    this.#follower.tabs.tell();
  }

  async noteEditing(approvalId: string, isEditing: boolean): Promise<void> {
    const { server } = this.#follower.transport;
    const body = JSON.stringify({ chatId: this.#follower.id, approvalId, editing: isEditing });
    await server.json(`${server.api}/tool-result`, { method: 'POST', body });
  }

  previewInput(approvalId: string, inputText: string, signal?: AbortSignal): Promise<InputPreview> {
    const { server } = this.#follower.transport;
    const body = JSON.stringify({ chatId: this.#follower.id, approvalId, preview: { inputText } });
    return server.json(`${server.api}/tool-result`, { method: 'POST', body, ...(signal && { signal }) });
  }

  async retryCall(toolCallId: string): Promise<void> {
    await this.#follower.transport.retryCall(this.#follower.id, toolCallId);
    // The run that begins with the call is followed like one of another tab.
    void this.#follower.refresh();
    this.#follower.tabs.tell();
  }

  /** Runs a call with the page's own tool, if it has one that runs by itself. `isReplay`: the call may have been settled or run before. */
  runTool(name: string, toolCallId: string, input: unknown, isReplay: boolean) {
    const tool = this.#follower.transport.tools(this.#follower.id)[name];
    if (tool?.execute === undefined) return;
    const { server } = this.#follower.transport;
    void this.#follower.tools.run({
      toolCallId,
      tool,
      input,
      isReplay,
      isPending: async () => {
        const url = server.chatUrl(this.#follower.id, '/pending');
        const { pending } = await retry(() => server.json<{ pending: Pending[] }>(url));
        return pending.some((waiting) => waiting.kind === 'output' && waiting.toolCallId === toolCallId);
      },
      deliver: (outcome, goesOn) => this.#addOutcome(name, toolCallId, outcome, goesOn),
      report: (error) => {
        this.#follower.report(error instanceof Error ? error : new Error(String(error)));
      },
    });
  }
}
