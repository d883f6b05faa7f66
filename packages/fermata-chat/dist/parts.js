// What all versions of the AI SDK have in common in a tool part.
export const isToolPart = (part) => 'toolCallId' in part && 'state' in part;
export const toolNameOf = (part) => part.toolName ?? part.type.slice('tool-'.length);
/** Whether something is still to come of a call. */
export const isOpen = (part) => ['input-streaming', 'input-available', 'approval-requested'].includes(part.state) ||
    part.preliminary === true;
export const hasOpenCall = ({ role, parts }) => role === 'assistant' && parts.some((part) => isToolPart(part) && isOpen(part));
/** The calls of a message's last step. */
export function lastStepOf(message) {
    if (message?.role !== 'assistant')
        return [];
    const parts = message.parts;
    const start = message.parts.findLastIndex((part) => part.type === 'step-start');
    return parts.slice(start + 1).filter(isToolPart);
}
//# sourceMappingURL=parts.js.map