import type { UIMessage } from 'ai';
export interface ToolPart {
    type: string;
    toolCallId: string;
    toolName?: string;
    state: string;
    input?: unknown;
    preliminary?: boolean;
    approval?: {
        id: string;
    };
}
export declare const isToolPart: (part: object) => part is ToolPart;
export declare const toolNameOf: (part: ToolPart) => string;
/** Whether something is still to come of a call. */
export declare const isOpen: (part: ToolPart) => boolean;
export declare const hasOpenCall: ({ role, parts }: UIMessage) => boolean;
/** The calls of a message's last step. */
export declare function lastStepOf(message: UIMessage | undefined): ToolPart[];
//# sourceMappingURL=parts.d.ts.map