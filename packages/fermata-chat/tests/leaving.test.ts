// @vitest-environment happy-dom
// What a page asks for that is being left.

import { expect, test } from 'vitest';
import { FermataTransport } from '../src';

const event = (number: number, chunk: object) => `id: run:${number}\ndata: ${JSON.stringify(chunk)}\n\n`;
const BEGINNING = event(1, { type: 'start', messageId: 'm' });
const END = event(2, { type: 'finish' });
const headers = { 'content-type': 'text/event-stream', 'x-vercel-ai-ui-message-stream': 'v1' };

test('a page that is being left opens nothing again, and goes on if it is shown again', async () => {
  const requests: RequestInit[] = [];
  const transport = new FermataTransport({
    fetch: (_, init = {}) => {
      requests.push(init);
      // The first connection ends before its run.
      return Promise.resolve(new Response(requests.length === 1 ? BEGINNING : END, { headers }));
    },
  });
  const stream = await transport.sendMessages({
    chatId: 'left',
    messages: [{ id: 'u', role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
    trigger: 'submit-message',
    messageId: undefined,
    abortSignal: undefined,
  });
  const reader = stream.getReader();
  expect(await reader.read()).toMatchObject({ value: { type: 'start' } });
  window.dispatchEvent(new Event('pagehide'));
  const next = reader.read();
  await new Promise((resolve) => setTimeout(resolve));
  expect(requests.map(({ method }) => method)).toEqual(['POST']);
  window.dispatchEvent(new Event('pageshow'));
  expect(await next).toMatchObject({ value: { type: 'finish' } });
  expect(requests).toHaveLength(2);
});

test('a stream is never taken from the HTTP cache of the browser, nor waits for it', async () => {
  const requests: RequestInit[] = [];
  const transport = new FermataTransport({
    fetch: (_, init = {}) => {
      requests.push(init);
      return Promise.resolve(new Response(END, { headers }));
    },
  });
  await transport.reconnectToStream({ chatId: 'read' });
  expect(requests.map(({ cache }) => cache)).toEqual(['no-store']);
});
