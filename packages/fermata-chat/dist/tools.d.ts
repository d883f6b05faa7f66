import type { BrowserTool } from './transport.js';
export type Outcome = {
    output: unknown;
} | {
    state: 'output-error';
    errorText: string;
};
/** A call that is to be run. */
export interface ToolRun {
    toolCallId: string;
    tool: BrowserTool;
    input: unknown;
    /** Whether the call may have been settled or run before. */
    isReplay: boolean;
    /** Asks the server whether the call still waits for a page. */
    isPending: () => Promise<boolean>;
    /** Tells the server, for as long as `goesOn` says. */
    deliver: (outcome: Outcome, goesOn: () => boolean) => Promise<void>;
}
export declare class ToolRunner {
    #private;
    constructor(api: string, chatId: string);
    /** Gives up what runs: its run was stopped or superseded, so the server has settled the calls. */
    stop(): void;
    /** The server has the outcome. */
    forget(toolCallId: string): void;
    run(call: ToolRun): Promise<void>;
}
//# sourceMappingURL=tools.d.ts.map