// @ts-check
// What a chat server with the AI SDK itself costs, for `make bench`: it answers as its documentation says, and
// saves nothing. The base URL of the model API comes first, then the name of the model. Prints its own address.

import http from 'node:http';
import { json } from 'node:stream/consumers';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { convertToModelMessages, streamText } from 'ai-7.0.173';

const [baseURL = '', model = ''] = process.argv.slice(2);
const provider = createOpenAICompatible({ name: 'bench', baseURL, apiKey: 'bench-key-of-nobody' });

const server = http.createServer(async (request, response) => {
  const { messages } = /** @type {{ messages: import('ai-7.0.173').UIMessage[] }} */ (await json(request));
  const answer = streamText({
    model: provider(model),
    messages: await convertToModelMessages(messages),
  });
  answer.pipeUIMessageStreamToResponse(response);
});
server.listen(0, '127.0.0.1', () => {
  const { address, port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  console.log(`${address}:${port}`);
});
