// Feeds event streams to the real npm clients and prints the message that each client makes of its stream.
// stdin: [{ client, messages, sse }]; stdout: [{ message, errors, toolCalls }], in the same order.
// With `chunks` instead of `sse`, the output is [{ refused }]: the chunks that the client's schema refuses.
const clone = (value) => (value === undefined ? undefined : JSON.parse(JSON.stringify(value)));

class State {
  constructor(messages) { this.messages = messages; this.status = 'ready'; this.error = undefined; }
  pushMessage = (message) => { this.messages = [...this.messages, clone(message)]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (at, message) => { this.messages = this.messages.with?.(at, clone(message)) ?? this.messages; };
  snapshot = clone;
}

// Splits the stream into pieces of a fixed size, which end anywhere, as on a network.
function body(sse, size = 61) {
  const bytes = new TextEncoder().encode(sse);
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) controller.close();
      else { controller.enqueue(bytes.slice(at, at + size)); at += size; }
    },
  });
}

async function fold({ client, messages, sse }) {
  const ai = await import(client);
  const errors = [];
  const toolCalls = [];
  const headers = { 'content-type': 'text/event-stream', 'x-vercel-ai-ui-message-stream': 'v1' };
  class Chat extends ai.AbstractChat {}
  const chat = new Chat({
    id: 'chat',
    state: new State(clone(messages)),
    transport: new ai.DefaultChatTransport({ api: 'http://fermata.test/api/chat', fetch: async () => new Response(body(sse), { headers }) }),
    onError: (error) => errors.push(String(error?.message ?? error)),
    onToolCall: ({ toolCall }) => { toolCalls.push(toolCall.toolCallId); },
  });
  const last = messages.at(-1);
  if (last?.role === 'assistant') await chat.sendMessage();
  else await chat.sendMessage({ text: 'hi' });
  return { message: clone(chat.messages.at(-1)), errors, toolCalls };
}

async function refused({ client, chunks }) {
  const schema = (await import(client)).uiMessageChunkSchema();
  const refusals = await Promise.all(chunks.map(async (chunk) => ((await schema.validate(chunk)).success ? [] : [chunk])));
  return { refused: refusals.flat() };
}

let input = '';
for await (const piece of process.stdin.setEncoding('utf8')) input += piece;
const made = [];
for (const stream of JSON.parse(input)) made.push(await (stream.chunks ? refused(stream) : fold(stream)));
process.stdout.write(JSON.stringify(made));
