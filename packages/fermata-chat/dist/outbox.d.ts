import type { UIMessage } from 'ai';
export interface Draft {
    message: UIMessage;
    /** Why it was not sent. There is none if the person has stopped it. */
    error?: Error;
    /** Whether the page does not show it, because it follows a run. */
    isAside: boolean;
}
/** What the person said last. A stream that is still read may have written behind it. */
export declare function draftOf(messages: readonly UIMessage[], error?: Error): Draft | undefined;
/** Whether the server has it. */
export declare const isDelivered: ({ message }: Draft, record: readonly UIMessage[]) => boolean;
/** The messages with it at the end; what was said after the message that it edits goes. */
export declare function withDraft(messages: readonly UIMessage[], { message }: Draft): UIMessage[];
//# sourceMappingURL=outbox.d.ts.map