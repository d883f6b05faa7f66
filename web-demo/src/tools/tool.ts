// The type of a tool of this page: its description for the server and the model, and the body of its card.
//
// A tool either has `execute`, and then the helper runs it by itself, or its `Body` asks the person and
// answers.

import type { ComponentType } from 'react';
import type { BrowserTool } from 'fermata-chat';
import type { Taken } from '../chat/ui/useAnswer';

/** The props of the body of a call's card. */
export interface ToolBodyProps {
  toolCallId: string;
  /** The model's input; not to be trusted to fit the schema where the call failed. */
  input: unknown;
  /**
   * `waiting`: the person may answer. `working`: it runs by itself. `done`: `output` is the result. `over`:
   * it failed, or was denied; the card shows that.
   */
  stage: 'waiting' | 'working' | 'done' | 'over';
  output?: unknown;
  /** `true` if an answer is under way. */
  isBusy: boolean;
  /** Answers the call. The card shows why an answer was refused. */
  answer: (output: unknown) => Promise<Taken>;
  /** Ends the call with an error that the model receives. */
  fail: (errorText: string) => Promise<Taken>;
}

/** A tool of this page. */
export interface PageTool extends BrowserTool {
  /** The content of the card besides the input and output. Without it, the card shows those alone. */
  Body?: ComponentType<ToolBodyProps>;
}
