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
  useSummary,
  type Assistant,
  type ChatSummary,
} from '../../src/react.js';
import { until } from '../../../../e2e/harness/until.mjs';

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
function serverWith(answers: Record<string, () => Response>) {
  const requests: string[] = [];
  const server = fermata({
    fetch: (url, init) => {
      const path = url as string;
      requests.push(`${init?.method ?? 'GET'} ${path}`);
      const answer = answers[path]?.() ?? Response.json({ code: 'not_found', detail: 'no' }, { status: 404 });
      return Promise.resolve(answer);
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
    '/api/chat/tea': () =>
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
  expect(requests).toEqual(['GET /api/chat/tea', 'GET /api/chat/tea/summary?optional=true']);
});

test('a component that comes later loads the summary of a chat that is there already', async () => {
  const { server, requests } = serverWith({
    '/api/chat/tea': () => Response.json({ messages: MESSAGES, pending: [], open: false }),
    '/api/chat/tea/summary?optional=true': () => Response.json(SUMMARY),
  });
  const chat = chatOf(server);
  end.push(chat.open());
  await until(() => chat.messages.length === 3, 'the chat');
  expect(requests).toEqual(['GET /api/chat/tea']);
  const summaries: (ChatSummary | undefined)[] = [];
  render(<Drawn use={() => useSummary(chat)} into={summaries} />);
  await until(() => summaries.at(-1) !== undefined, 'the summary');
  expect(summaries.at(-1)).toEqual(SUMMARY);
});
