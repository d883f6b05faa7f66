// The tools that the page's components have registered with assistant-ui.

import type { AssistantRuntime } from '@assistant-ui/react';
import { toToolsJSONSchema, unstable_runPendingTools as runPendingTools } from 'assistant-stream';
import type { BrowserTool } from '../index.js';

type ModelContext = ReturnType<AssistantRuntime['thread']['getModelContext']>;
type Tool = NonNullable<ModelContext['tools']>[string];

/** A question of `human()`, with the id of the call under which assistant-ui shows it. */
export interface Question {
  toolCallId: string;
  shownAs: string;
  payload: unknown;
  answer: (payload: unknown) => void;
}

/** The second argument of a tool's `execute`. */
interface Call {
  toolCallId: string;
  human: (payload: unknown) => Promise<unknown>;
}

type StreamCall = (reader: unknown, call: Call) => unknown;

/** The output that assistant-ui is given for a call that it does not run. */
export const NO_OUTPUT = 'fermata: no output';

/** Returns `true` if the page runs the tool's calls, or its UI answers them. */
const isForPage = (_name: string, { type, disabled }: Tool) =>
  disabled !== true && (type === undefined || type === 'frontend' || type === 'human');

/**
 * The tools of the page, run for the chat. The chat knows the time and the tab.
 *
 * assistant-ui would run them by itself, but only in a run that has ended, not side by side with one that
 * began before, and never where somebody was asked. So `execute` is taken away from it, but for one thing
 * that nobody else can do: having a call show what `human()` asks. The call is then shown under an id that
 * assistant-ui has not seen, and what it runs for that id passes the question on.
 */
export class PageTools {
  #runtime: AssistantRuntime | undefined;
  #isReading = false;
  #questions: readonly Question[] = [];
  #asked = 0;
  readonly #listeners = new Set<() => void>();

  subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  questions = () => this.#questions;

  attach(runtime: AssistantRuntime): () => void {
    this.#runtime = runtime;
    return runtime.registerModelContextProvider({ getModelContext: () => this.#substitutes() });
  }

  /** The fields of a post that come from the components. */
  settings(): object {
    const { system, callSettings, config, tools } = this.#context;
    const schemas = toToolsJSONSchema(tools, { filter: isForPage });
    return {
      ...(system !== undefined && { system }),
      ...(callSettings !== undefined && { callSettings }),
      ...(config !== undefined && { config }),
      ...(Object.keys(schemas).length > 0 && { tools: schemas }),
    };
  }

  tools(repeatable: readonly string[]): Record<string, BrowserTool> {
    const { tools = {} } = this.#context;
    const schemas = toToolsJSONSchema(tools, { filter: isForPage });
    const entries = Object.entries(schemas).map(
      ([name, { parameters: inputSchema }]): [string, BrowserTool] => {
        const tool = tools[name];
        const execute = tool?.execute && runner(name, tool, (...question) => this.#ask(...question));
        return [name, { inputSchema, repeatable: repeatable.includes(name), ...(execute && { execute }) }];
      },
    );
    return Object.fromEntries(entries);
  }

  /** Returns `true` if calls of a tool are answered by its UI alone. */
  hasUiOnly(name: string): boolean {
    const tool = this.#context.tools?.[name];
    return tool !== undefined && isForPage(name, tool) && tool.execute === undefined;
  }

  /** As the components have registered it. */
  get #context(): ModelContext {
    this.#isReading = true;
    try {
      return this.#runtime?.thread.getModelContext() ?? {};
    } finally {
      this.#isReading = false;
    }
  }

  /** The tools that assistant-ui has in place of those that the page runs. */
  #substitutes(): ModelContext {
    if (this.#isReading) return {};
    const { tools = {} } = this.#context;
    const own = Object.entries(tools).filter(([, tool]) => tool.execute !== undefined);
    return {
      priority: Number.MAX_VALUE,
      tools: Object.fromEntries(own.map(([name, tool]) => [name, this.#substitute(tool)])),
    };
  }

  /** It takes the place of what it names; the rest of the tool stays. */
  #substitute(tool: Tool): Tool {
    const { streamCall } = tool as { streamCall?: StreamCall };
    const isQuestion = (shownAs: string) => this.#questions.some((question) => question.shownAs === shownAs);
    const own: StreamCall = (reader, call) => !isQuestion(call.toolCallId) && streamCall?.(reader, call);
    const substitute: object = {
      type: 'frontend',
      parameters: { type: 'object' },
      execute: (_input: unknown, call: Call) => this.#passOn(call.toolCallId, call.human),
      toModelOutput: undefined,
      ...(streamCall && { streamCall: own }),
    };
    return substitute as Tool;
  }

  async #passOn(shownAs: string, human: (payload: unknown) => Promise<unknown>): Promise<string> {
    const question = this.#questions.find((question) => question.shownAs === shownAs);
    // assistant-ui gives up what it runs when the person sends something or stops; then the run ends, and the
    // question with it.
    const answer = (payload: unknown) => question?.answer(payload);
    if (question !== undefined) await human(question.payload).then(answer, () => undefined);
    return NO_OUTPUT;
  }

  #ask(toolCallId: string, payload: unknown, signal: AbortSignal): Promise<unknown> {
    const ended = () => new Error('The run was ended before the person answered.');
    if (signal.aborted) return Promise.reject(ended());
    return new Promise((resolve, reject) => {
      const question: Question = {
        toolCallId,
        shownAs: `${toolCallId}~${++this.#asked}`,
        payload,
        answer: (answer) => {
          this.#show(this.#questions.filter((other) => other !== question));
          resolve(answer);
        },
      };
      signal.addEventListener('abort', () => {
        this.#show(this.#questions.filter((other) => other !== question));
        reject(ended());
      });
      this.#show([...this.#questions, question]);
    });
  }

  #show(questions: readonly Question[]) {
    this.#questions = questions;
    for (const listener of this.#listeners) listener();
  }
}

type Ask = (toolCallId: string, payload: unknown, signal: AbortSignal) => Promise<unknown>;
type RunnableMessage = Parameters<typeof runPendingTools>[0];

/**
 * Runs a tool as assistant-ui does: its input validated, its output as it was, or with what the model is to
 * read of it.
 */
const runner =
  (name: string, tool: Tool, ask: Ask): NonNullable<BrowserTool['execute']> =>
  async (input, { toolCallId, signal }) => {
    const call = {
      type: 'tool-call',
      state: 'call',
      toolCallId,
      toolName: name,
      args: input,
      argsText: JSON.stringify(input),
    };
    const message = { role: 'assistant', parts: [call], content: [call] } as unknown as RunnableMessage;
    const human = (_id: string, payload: unknown) => ask(toolCallId, payload, signal);
    const done = await runPendingTools(message, { [name]: tool }, signal, human);
    const outcome = done.parts.find((part) => part.type === 'tool-call');
    const { result, isError, modelContent } = (outcome ?? {}) as {
      result?: unknown;
      isError?: boolean;
      modelContent?: unknown;
    };
    if (isError === true) throw new Error(typeof result === 'string' ? result : JSON.stringify(result));
    return modelContent === undefined ? result : { __aui_modelContent: modelContent, value: result };
  };
