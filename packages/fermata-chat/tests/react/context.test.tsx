// Who answers in a chat, how full its window is, and its summary, on a page with React.

import '../assistant-ui/dom';
import { Chat } from '@ai-sdk/react';
import type { UIMessage } from 'ai';
import { StrictMode, useEffect, type ReactNode } from 'react';
import { createRoot } from 'react-dom/client';
import { afterEach, expect, test } from 'vitest';
import {
  fermata,
  useAssistants,
  useChosen,
  useContextUsage,
  useSummary,
  type Assistant,
  type ChatSummary,
  type ContextUsage,
} from '../../src/react.js';
import { gate, until } from '../../../../e2e/harness/until.mjs';

const SUMMARY: ChatSummary = {
  summary: {
    goal: 'Tea for two',
    decisions: [],
    done: [],
    todo: [],
    facts: [],
    entities: {},
    openQuestions: [],
    toolsUsed: [],
  },
  upTo: 'message-2',
  messages: 2,
  reason: 'every',
  model: 'test-model',
  createdAt: '2026-01-01T00:00:00Z',
};

const ASSISTANTS: Assistant[] = [
  { name: 'default', title: 'default', models: ['test-model'], suggestions: [] },
  { name: 'support', title: 'Support', models: ['fast', 'large'], suggestions: [] },
];

const MESSAGES = ['user', 'assistant', 'user'].map((role, place) => ({
  id: `message-${String(place + 1)}`,
  role,
  parts: [{ type: 'text', text: 'tea' }],
}));

const end: (() => void)[] = [];
afterEach(() => {
  for (const one of end.splice(0).reverse()) one();
});

/** A server that has these answers, by their paths; `requests` are the paths that it was asked for. */
function serverWith(answers: Record<string, () => Response | Promise<Response>>) {
  const requests: string[] = [];
  const server = fermata({
    fetch: (url, init) => {
      const path = url as string;
      requests.push(`${init?.method ?? 'GET'} ${path}`);
      const unknown = () => Response.json({ code: 'not_found', detail: 'no' }, { status: 404 });
      return Promise.resolve((answers[path] ?? unknown)());
    },
  });
  return { server, requests };
}

function render(page: ReactNode) {
  const root = createRoot(document.createElement('div'));
  root.render(<StrictMode>{page}</StrictMode>);
  const close = () => {
    root.unmount();
  };
  end.push(close);
  return close;
}

/** Draws what a hook returns. */
function Drawn<T>({ use, into }: { use: () => T; into: T[] }) {
  const value = use();
  useEffect(() => {
    into.push(value);
  });
  return null;
}

const chatOf = (server: ReturnType<typeof fermata>) =>
  server.chat<UIMessage, Chat<UIMessage>>(Chat, { id: 'tea' });

test('the list of assistants is asked for once, however many components show it', async () => {
  const { server, requests } = serverWith({
    '/api/assistants': () => Response.json({ assistants: ASSISTANTS }),
  });
  const [one, other] = [[], []] as [(readonly Assistant[])[], (readonly Assistant[])[]];
  const use = () => useAssistants(server);
  render(
    <>
      <Drawn use={use} into={one} />
      <Drawn use={use} into={other} />
    </>,
  );
  await until(() => one.at(-1)?.length === 2 && other.at(-1)?.length === 2, 'the list in both');
  expect(one[0]).toEqual([]);
  expect(other.at(-1)).toEqual(ASSISTANTS);
  expect(requests).toEqual(['GET /api/assistants']);
});

test('a list that could not be loaded is asked for again by the next component', async () => {
  let isAway = true;
  const { server, requests } = serverWith({
    '/api/assistants': () =>
      isAway
        ? Response.json({ code: 'unavailable', detail: 'later' }, { status: 503 })
        : Response.json({ assistants: ASSISTANTS }),
  });
  const drawn: (readonly Assistant[])[] = [];
  const use = () => useAssistants(server);
  const close = render(<Drawn use={use} into={drawn} />);
  await until(() => requests.length > 0, 'the first request');
  close();
  isAway = false;
  // The refusal has to be read before it is forgotten.
  await until(() => {
    render(<Drawn use={use} into={drawn} />);
    return drawn.at(-1)?.length === 2;
  }, 'the list');
  expect(drawn.at(-1)).toEqual(ASSISTANTS);
});

test('a component that shows the summary and the choice has them once the chat is loaded', async () => {
  const { server, requests } = serverWith({
    '/api/chat/tea?optional=true': () =>
      Response.json({ messages: MESSAGES, pending: [], open: false, assistant: 'support', model: 'large' }),
    '/api/chat/tea/summary?optional=true': () => Response.json(SUMMARY),
  });
  const chat = chatOf(server);
  const summaries: (ChatSummary | undefined)[] = [];
  const choices: object[] = [];
  render(
    <>
      <Drawn use={() => useSummary(chat)} into={summaries} />
      <Drawn use={() => useChosen(chat)} into={choices} />
    </>,
  );
  await until(() => summaries.length > 0, 'the components');
  expect(requests).toEqual([]);
  end.push(chat.open());
  await until(() => summaries.at(-1) !== undefined, 'the summary');
  expect(summaries.at(-1)).toEqual(SUMMARY);
  expect(choices.at(-1)).toEqual({ assistant: 'support', model: 'large' });
  expect(requests).toEqual(['GET /api/chat/tea?optional=true', 'GET /api/chat/tea/summary?optional=true']);
});

test('a component that comes later loads the summary of a chat that is there already', async () => {
  const { server, requests } = serverWith({
    '/api/chat/tea?optional=true': () => Response.json({ messages: MESSAGES, pending: [], open: false }),
    '/api/chat/tea/summary?optional=true': () => Response.json(SUMMARY),
  });
  const chat = chatOf(server);
  end.push(chat.open());
  await until(() => chat.messages.length === 3, 'the chat');
  expect(requests).toEqual(['GET /api/chat/tea?optional=true']);
  const summaries: (ChatSummary | undefined)[] = [];
  render(<Drawn use={() => useSummary(chat)} into={summaries} />);
  await until(() => summaries.at(-1) !== undefined, 'the summary');
  expect(summaries.at(-1)).toEqual(SUMMARY);
});

const LOADED: ContextUsage = { inputTokens: 700, window: 1000, compactAt: 800 };
const OF_STEP: ContextUsage = { inputTokens: 720, window: 1000, compactAt: 800 };

/** The stream of a run that says how full the window is. */
function runWith(data: ContextUsage) {
  const chunks = [
    { type: 'start', messageId: 'message-4' },
    { type: 'start-step' },
    { type: 'data-context', data, transient: true },
    { type: 'finish-step' },
    { type: 'finish' },
  ];
  const events = chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('');
  return new Response(`${events}data: [DONE]\n\n`, {
    headers: { 'content-type': 'text/event-stream', 'x-vercel-ai-ui-message-stream': 'v1' },
  });
}

test('a component shows how full the window is once the chat is loaded, and then what a step says', async () => {
  const record = { messages: MESSAGES, pending: [], open: false, context: LOADED };
  const { server } = serverWith({
    '/api/chat/tea?optional=true': () => Response.json(record),
    '/api/chat': () => runWith(OF_STEP),
  });
  const chat = chatOf(server);
  const usages: (ContextUsage | undefined)[] = [];
  render(<Drawn use={() => useContextUsage(chat)} into={usages} />);
  end.push(chat.open());
  await until(() => usages.at(-1) !== undefined, 'what the record says');
  expect(usages.at(-1)).toEqual(LOADED);
  await chat.sendMessage({ text: 'more tea' });
  await until(() => usages.at(-1)?.inputTokens === OF_STEP.inputTokens, 'what the step says');
  expect(usages.at(-1)).toEqual(OF_STEP);
});

test('a record that says nothing of the window takes back what was known of it', async () => {
  let context: ContextUsage | undefined = LOADED;
  const { server } = serverWith({
    '/api/chat/tea?optional=true': () =>
      Response.json({ messages: MESSAGES, pending: [], open: false, context }),
  });
  const chat = chatOf(server);
  end.push(chat.open());
  await until(() => chat.contextUsage.get() !== undefined, 'what the record says');
  context = undefined;
  await chat.refresh();
  expect(chat.contextUsage.get()).toBeUndefined();
});

test('a record that comes after the step of a newer message does not take its place', async () => {
  const loading = gate();
  const late = { messages: MESSAGES, pending: [], open: false, model: 'old', context: LOADED };
  const answer = Response.json(late);
  let loads = 0;
  const { server } = serverWith({
    '/api/chat/tea?optional=true': async () => {
      loads += 1;
      // It is asked for again once the answer is through.
      if (loads > 1) return new Promise<Response>(() => undefined);
      await loading.opened;
      return answer;
    },
    '/api/chat': () => runWith(OF_STEP),
  });
  const chat = chatOf(server);
  end.push(chat.open());
  await until(() => loads === 1, 'the request for the record');
  await chat.sendMessage({ text: 'more tea' });
  expect(chat.contextUsage.get()).toEqual(OF_STEP);
  loading.open();
  await until(() => answer.bodyUsed, 'the record to be read');
  await new Promise((resolve) => setTimeout(resolve));
  expect(chat.contextUsage.get()).toEqual(OF_STEP);
  expect(chat.chosen.get()).toEqual({});
});
