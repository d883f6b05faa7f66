// A page's code over the types that are generated from the description. It is compiled and never run.

import type { UIMessage, UIMessageChunk } from 'ai-7.0.173';
import type { components, paths } from './api.js';

type Chunk = components['schemas']['UIMessageChunk'];
type Message = components['schemas']['UIMessage'];
type Part = Message['parts'][number];
type Post = paths['/api/chat']['post']['requestBody']['content']['application/json'];
type Answer = paths['/chat/tool-result']['post']['requestBody']['content']['application/json'];
type Answered = paths['/chat/tool-result']['post']['responses'][200]['content']['application/json'];

export function post(path: '/api/chat', body: Post): Promise<Response>;
export function post(path: '/chat/tool-result' | '/api/chat/tool-result', body: Answer): Promise<Response>;
export function post(path: string, body: unknown): Promise<Response> {
  return fetch(path, { method: 'POST', body: JSON.stringify(body) });
}

export async function use(message: Message): Promise<string[]> {
  await post('/api/chat', {
    id: 'c',
    messages: [message, { role: 'user', content: 'hi' }],
    trigger: 'submit-message',
    tools: { look: { description: 'Looks.', parameters: { type: 'object' } } },
    callSettings: { temperature: 0.2 },
    toolChoice: { type: 'tool', toolName: 'look' },
    fermata: { client: '7.0.173', hold: '30s' },
  });
  // @ts-expect-error nobody else speaks
  await post('/api/chat', { message: { role: 'robot', content: 'hi' } });
  // @ts-expect-error a setting must be a number
  await post('/api/chat', { message: { role: 'user', content: 'hi' }, callSettings: { temperature: 'hot' } });
  // @ts-expect-error there is no such setting
  await post('/api/chat', { message: { role: 'user', content: 'hi' }, callSettings: { temprature: 1 } });
  // Any JSON is an output.
  for (const output of [null, 1, 'x', [1], { a: 1 }])
    await post('/chat/tool-result', { chatId: 'c', toolCallId: 'a', output });
  await post('/api/chat/tool-result', { chatId: 'c', answers: [{ approvalId: 'p', approved: true }] });
  // @ts-expect-error a decision is true or false
  await post('/chat/tool-result', { chatId: 'c', approvalId: 'p', approved: 'yes' });
  await post('/chat/tool-result', { chatId: 'c', toolCallId: 'a', preview: { input: { title: 'Milk' } } });
  // @ts-expect-error it is the answer to a call of a chat
  const response = await post('/chat/tool-result', { toolCallId: 'a', output: 1 });
  const answered: Answered = await response.json();
  // The response to a preview is about one call.
  if ('decision' in answered) return [answered.decision, answered.description ?? ''];
  return answered.calls.flatMap((call) => [call.toolCallId, call.state, ...call.waitingFor]);
}

export function words(part: Part): string {
  if (part.type === 'text') return part.text;
  if (part.type === 'file') return part.url;
  if (part.type === 'dynamic-tool') return part.state === 'output-error' ? part.errorText : part.toolName;
  // @ts-expect-error only a text has one
  return part.text;
}

export function delta(chunk: Chunk): string {
  if (chunk.type === 'text-delta') return chunk.delta;
  if (chunk.type === 'tool-output-error') return `${chunk.toolCallId}: ${chunk.errorText}`;
  // @ts-expect-error only a delta has one
  return chunk.delta;
}

// What the server sends is what the AI SDK reads, and the other way round. What providers say in their own form is any JSON
// here and narrower there, and so is how far a decision about a call has come.
type Free = 'providerMetadata' | 'toolMetadata' | 'citations' | 'inputEncoding' | 'approvalDescriptor';
type Plain<T> = T extends { type: 'custom' } ? never : Omit<T, Free>;
type PlainMessage = Omit<Message, 'parts'> & { parts: Plain<Exclude<Part, { toolCallId: string }>>[] };
export const toSdkChunk = (chunk: Plain<Chunk>): UIMessageChunk => chunk;
export const fromSdkChunk = (chunk: UIMessageChunk): Chunk => chunk;
export const toSdkMessage = (message: PlainMessage): UIMessage => message;
export const fromSdkMessage = (message: UIMessage): Message => message;
