// What a tool of this page is: what the server and the model are told of it, and how its card shows it.
//
// A tool either has `execute`, and then the helper runs it by itself, or its `Body` asks the person and
// answers.

import type { ComponentType } from 'react';
import type { BrowserTool } from 'fermata-chat';
import type { Taken } from '../chat/ui/useAnswer';

/** What the body of a call's card gets. */
export interface ToolBodyProps {
  toolCallId: string;
  /** The model's input; not to be trusted to fit the schema where the call failed. */
  input: unknown;
  /**
   * `waiting`: the person may answer. `working`: it runs by itself. `done`: `output` is the result. `over`:
   * it failed, or was denied; the card says so.
   */
  stage: 'waiting' | 'working' | 'done' | 'over';
  output?: unknown;
  /** Whether an answer is under way. */
  isBusy: boolean;
  /** Answers the call. The card shows why an answer was refused. */
  answer: (output: unknown) => Promise<Taken>;
  /** Ends the call with an error that the model is told. */
  fail: (errorText: string) => Promise<Taken>;
}

/** A tool of this page. */
export interface PageTool extends BrowserTool {
  /** What the card shows besides the input and output; where it is left out, those alone. */
  Body?: ComponentType<ToolBodyProps>;
}
