// @ts-check
// The message that a client makes of chunks, put together by the AI SDK's own code.

import { load, newestOf } from './clients.mjs';

/** @typedef {import('./events.mjs').Chunk} Chunk */
/** @typedef {import('./clients.mjs').Version} Version */
/** @typedef {import('./page.mjs').Message} Message */

/**
 * @param {Chunk[]} sent
 * @param {Version} version
 * @returns {Promise<Message>}
 */
export async function messageOf(sent, version) {
  const { readUIMessageStream } =
    /** @type {{ readUIMessageStream: (options: object) => AsyncIterable<Message> }} */ (
      await load(newestOf(version))
    );
  const chunks = sent.filter(({ type }) => type !== 'error');
  const stream = new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  let message;
  for await (const state of readUIMessageStream({ stream, terminateOnError: true })) message = state;
  if (message === undefined) throw new Error(`no message in ${JSON.stringify(chunks)}`);
  return message;
}
