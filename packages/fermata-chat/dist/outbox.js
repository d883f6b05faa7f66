// What a person has said and the server has perhaps not heard: it stays on the page until it is sent or given up.
/** What the person said last. A stream that is still read may have written behind it. */
export function draftOf(messages, error) {
    const message = messages.findLast(({ role }) => role === 'user');
    return message && { message, isAside: false, ...(error && { error }) };
}
/** Whether the server has it. */
export const isDelivered = ({ message }, record) => record.some(({ id, parts }) => id === message.id && textOf(parts) === textOf(message.parts));
/** The messages with it at the end; what was said after the message that it edits goes. */
export function withDraft(messages, { message }) {
    const edited = messages.findIndex(({ id }) => id === message.id);
    return [...messages.slice(0, edited < 0 ? undefined : edited), message];
}
const textOf = (parts) => parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
//# sourceMappingURL=outbox.js.map