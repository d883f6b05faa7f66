// @ts-check
// A server that answers every post with the same chunks, for what the built binary does in rare cases only.
// It knows nothing of chats; what the client makes of the chunks is all that there is to learn from it.

import http from 'node:http';

/**
 * @param {import('./scenario.mjs').Place} place it ends with
 * @param {import('./events.mjs').Chunk[]} chunks
 * @returns {Promise<string>} its URL
 */
export async function recites(place, chunks) {
  const body = [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]']
    .map((data) => `data: ${data}\n\n`)
    .join('');
  const server = http.createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'x-vercel-ai-ui-message-stream': 'v1' });
    response.end(body);
  });
  await new Promise((/** @type {(value: void) => void} */ resolve) => server.listen(0, '127.0.0.1', resolve));
  place.atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the recital is not listening');
  return `http://127.0.0.1:${address.port}`;
}
