// What the server says of the run of a chat: its stage (`data-run`, and the record of the chat), and its plan (`data-plan`).
// Knows nothing of streams.

/** The stage of a run: it plans, makes calls, has their results, asks the model what is next, or speaks. */
export type Stage = 'idle' | 'plan' | 'tool_call' | 'tool_result' | 'decide' | 'respond';

/** The status of the run of a chat. */
export interface RunStatus {
  stage: Stage;
  /** `true` if a call waits for a person's decision. */
  requiresConfirm: boolean;
  /** `true` if no call of the step runs, because one of them waits for a person's decision. */
  gateClosed?: boolean;
  /** The words that approve all calls that wait, if a message that is one of them does so now. */
  confirmWords?: string[];
  /** `true` if a message is the answer to a question of the assistant now. */
  takesReply?: boolean;
  /** The cause of the wait for the model: the end of others, because the model may be sent no more at a time. */
  waitsFor?: 'capacity';
  /** The tool of the last call that got its outcome. */
  lastTool?: string;
  /** The beginning of the result that the model received. */
  lastResult?: string;
}

/** Returns the status of the run, as the record of a chat has it; `undefined` if the last post did not ask for it. */
export function runStatusIn(record: Partial<RunStatus>): RunStatus | undefined {
  const { stage, requiresConfirm, gateClosed, confirmWords, takesReply, waitsFor, lastTool, lastResult } =
    record;
  if (stage === undefined || requiresConfirm === undefined) return undefined;
  return {
    stage,
    requiresConfirm,
    ...(gateClosed !== undefined && { gateClosed }),
    ...(confirmWords !== undefined && { confirmWords }),
    ...(takesReply !== undefined && { takesReply }),
    ...(waitsFor !== undefined && { waitsFor }),
    ...(lastTool !== undefined && { lastTool }),
    ...(lastResult !== undefined && { lastResult }),
  };
}

/** The plan of a run, which is the data of a part `data-plan` of its message. */
export interface Plan {
  goal: string;
  state: 'proposed' | 'accepted' | 'denied' | 'done';
  steps: PlanStep[];
}

/** A step of a plan. */
export interface PlanStep {
  id: string;
  title: string;
  /** The tool that does it, if the plan names one. */
  tool?: string;
  /** The ids of the steps that have to be done before. */
  dependsOn: string[];
  state: 'todo' | 'doing' | 'done' | 'failed' | 'skipped';
  /** The call that was made for it last. */
  toolCallId?: string;
}

/** The newest plan in a message; `undefined` if there is none. */
export function planOf(message: { parts: readonly unknown[] }): Plan | undefined {
  const isPlan = (part: unknown): part is { data: Plan } => (part as { type?: unknown }).type === 'data-plan';
  return message.parts.findLast(isPlan)?.data;
}
