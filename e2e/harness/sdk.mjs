// @ts-check
// What a page uses of the AI SDK, whose own types differ from version to version, and the state that a user
// interface would keep for it. It does not know the server.

/**
 * @typedef {'never' | 'outputs' | 'approvals' | 'either'} Sends which of the helpers that it has are given as
 * `sendAutomaticallyWhen`
 */
/** @typedef {{ id: string, approved?: boolean, reason?: string }} Approval */
/**
 * @typedef {object} Part
 * @property {string} type
 * @property {string} [id]
 * @property {string} [state]
 * @property {string} [text]
 * @property {string} [toolCallId]
 * @property {string} [toolName]
 * @property {unknown} [input]
 * @property {unknown} [output]
 * @property {boolean} [preliminary]
 * @property {string} [errorText]
 * @property {Approval} [approval]
 * @property {unknown} [data]
 * @property {string} [url]
 * @property {string} [mediaType]
 * @property {string} [title]
 * @property {unknown} [rawInput]
 */
/** @typedef {{ type: 'file', mediaType: string, url: string, filename?: string }} FilePart */
/** @typedef {Part & { toolCallId: string, state: string }} ToolPart */
/** @typedef {{ id: string, role: string, parts: Part[], metadata?: unknown }} Message */

/**
 * The part of a chat that a page uses.
 *
 * @typedef {object} Chat
 * @property {string} status
 * @property {Message[]} messages
 * @property {(message: { text: string, files?: FilePart[], messageId?: string }) => Promise<void>}
 * sendMessage
 * @property {() => Promise<void>} regenerate
 * @property {() => Promise<void>} resumeStream
 * @property {() => Promise<void>} stop
 * @property {(output: { tool: string, toolCallId: string, output?: unknown, state?: string, errorText?:
 * string }) => Promise<void>} addToolOutput
 * @property {(response: { id: string, approved: boolean, reason?: string }) => Promise<void>}
 * [addToolApprovalResponse]
 */
/** @typedef {(last: { messages: Message[] }) => boolean} Decides */
/**
 * @typedef {object} Sdk
 * @property {new (init: object) => Chat} AbstractChat
 * @property {new (init: object) => object} DefaultChatTransport
 * @property {Decides} lastAssistantMessageIsCompleteWithToolCalls
 * @property {Decides} [lastAssistantMessageIsCompleteWithApprovalResponses]
 */

/**
 * The function that decides whether a page posts again.
 *
 * @param {Sdk} sdk
 * @param {Sends} sends
 * @returns {Decides | undefined}
 */
export function decides(
  {
    lastAssistantMessageIsCompleteWithToolCalls: outputs,
    lastAssistantMessageIsCompleteWithApprovalResponses: approvals,
  },
  sends,
) {
  switch (sends) {
    case 'never':
      return undefined;
    case 'outputs':
      return outputs;
    case 'approvals':
      return approvals;
    case 'either':
      return (chat) => outputs(chat) || (approvals?.(chat) ?? false);
  }
}

/** The state that a user interface would render. */
export class Rendered {
  status = 'ready';
  /** @type {Error | undefined} */
  error = undefined;

  /** @param {Message[]} messages */
  constructor(messages) {
    this.messages = messages;
  }

  /** @param {Message} message */
  pushMessage = (message) => {
    this.messages = [...this.messages, structuredClone(message)];
  };

  popMessage = () => {
    this.messages = this.messages.slice(0, -1);
  };

  /**
   * @param {number} index
   * @param {Message} message
   */
  replaceMessage = (index, message) => {
    this.messages = this.messages.with(index, structuredClone(message));
  };

  /** @type {<T>(thing: T) => T} */
  snapshot = (thing) => structuredClone(thing);
}

/**
 * @param {Part} part
 * @returns {part is ToolPart}
 */
export const isToolPart = (part) => part.toolCallId !== undefined && part.state !== undefined;

/** @param {Part} part */
export const nameOf = (part) => part.toolName ?? part.type.slice('tool-'.length);
