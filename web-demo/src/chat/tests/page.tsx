// What the tests of the cards share: a page with the English texts, a chat that notes what it is told, and
// messages.

import i18next from 'i18next';
import { initReactI18next } from 'react-i18next';
import { cleanup, configure } from '@testing-library/react';
import type { ToolUIPart } from 'ai';
import { afterEach, beforeAll, vi } from 'vitest';
import cards from '../../i18n/en/cards';
import context from '../../i18n/en/context';
import inbox from '../../i18n/en/inbox';
import memory from '../../i18n/en/memory';
import runs from '../../i18n/en/runs';
import shell from '../../i18n/en/shell';
import type {
  ChatSummary,
  Chosen,
  ContextUsage,
  FermataChat,
  Followed,
  NoOutput,
  RunStatus,
} from 'fermata-chat';
import type { Message } from '../record/message';
import type { AnyToolPart, OwnTools, ServerTool, ServerTools } from '../record/toolState';

/** Sets the page up for a file of tests. */
export function setUpPage() {
  // No test is about how long something takes.
  configure({ asyncUtilTimeout: 20_000 });
  beforeAll(async () => {
    await i18next.use(initReactI18next).init({
      lng: 'en',
      defaultNS: 'shell',
      resources: { en: { cards, context, inbox, memory, runs, shell } },
      interpolation: { escapeValue: false },
    });
  });
  afterEach(() => {
    cleanup();
    localStorage.clear();
  });
}

/** A value that stays. */
export const fixed = <T,>(value: T): Followed<T> => ({ get: () => value, subscribe: () => () => undefined });

/** A chat that takes every answer. */
export function fakeChat() {
  return {
    connection: 'open' as const,
    messages: [] as readonly unknown[],
    open: () => () => undefined,
    refresh: vi.fn<FermataChat['refresh']>(() => Promise.resolve()),
    addToolOutput: vi.fn<FermataChat['addToolOutput']>(() => Promise.resolve()),
    addToolApprovalResponse: vi.fn<FermataChat['addToolApprovalResponse']>(() => Promise.resolve()),
    answerElicitation: vi.fn<FermataChat['answerElicitation']>(() => Promise.resolve()),
    stop: vi.fn<FermataChat['stop']>(() => Promise.resolve()),
    callStatus: () => undefined,
    onCallStatus: () => () => undefined,
    contextUsage: fixed<ContextUsage | undefined>(undefined),
    runStatus: fixed<RunStatus | undefined>(undefined),
    cancelCall: vi.fn<FermataChat['cancelCall']>(() => Promise.resolve()),
    noteEditing: vi.fn<FermataChat['noteEditing']>(() => Promise.resolve()),
    previewInput: vi.fn<FermataChat['previewInput']>(() => Promise.resolve({ decision: 'ask' })),
    deleteMessage: vi.fn<FermataChat['deleteMessage']>(() => Promise.resolve()),
    retryCall: vi.fn<FermataChat['retryCall']>(() => Promise.resolve()),
    dropPlan: vi.fn<FermataChat['dropPlan']>(() => Promise.resolve()),
    summary: fixed<ChatSummary | undefined>(undefined),
    chosen: fixed<Chosen>({}),
    unsent: fixed(undefined),
    givenBack: fixed(undefined),
    correctSummary: vi.fn<FermataChat['correctSummary']>(() => Promise.resolve()),
    compact: vi.fn<FermataChat['compact']>(() => Promise.resolve()),
  };
}

/** A call: its id, its tool and its state. */
export function call(
  toolCallId: string,
  name: string,
  state: AnyToolPart['state'],
  more: object = {},
): AnyToolPart {
  const approval = state === 'approval-requested' ? { approval: { id: `approval of ${toolCallId}` } } : {};
  return {
    type: `tool-${name}`,
    toolCallId,
    state,
    input: {},
    ...approval,
    ...more,
  } as unknown as ToolUIPart;
}

/** A message of one step. */
export const messageOf = (...parts: AnyToolPart[]): Message => ({
  id: 'message',
  role: 'assistant',
  parts: [{ type: 'step-start' }, ...parts],
});

/** The same message, which says why one of its calls has no output. */
export const withoutOutput = (message: Message, toolCallId: string, noOutput: NoOutput): Message => ({
  ...message,
  metadata: { calls: { [toolCallId]: noOutput } },
});

/** The names of the server's own tools. */
export const OWN: OwnTools = {
  makePlan: 'make_plan',
  updatePlan: 'update_plan',
  remember: 'remember',
  forget: 'forget',
};

const listed: ServerTool[] = [
  {
    name: 'write_note',
    description: '',
    inputSchema: {
      type: 'object',
      properties: {
        title: { type: 'string', minLength: 1 },
        body: { type: 'string' },
        stars: { type: 'integer' },
      },
      required: ['title', 'body'],
      additionalProperties: false,
    },
    runBy: 'server',
    policy: 'ask',
    resource: 'notes',
  },
  {
    name: 'search_notes',
    description: '',
    inputSchema: { type: 'object' },
    runBy: 'server',
    policy: 'allow',
    resource: 'notes',
  },
  { name: 'files__read', description: '', inputSchema: { type: 'object' }, runBy: 'mcp', policy: 'allow' },
];

export const TOOLS: ServerTools = { listed, own: OWN };
