// The AI SDK's seam for servers: posts a chat, and reads its stream over as many connections as it takes.
//
// Works alone, as `useChat({ transport: new FermataTransport() })`. It does not know what a page shows; what
// needs that (loading, answers, other tabs, tools of the page) is in `chat.ts`.
import { FermataError, refusalOf, Server } from './server.js';
import { chunkStream } from './stream.js';
import { AI_VERSION } from './version.js';
/** Four keep-alive comments of the server missed. */
const SILENCE = 45_000;
export class FermataTransport {
    /** The server begins each stream with the whole message that is being written. */
    resumeStreamIsReplay = true;
    server;
    /** Chats that the server has: what was said before in these is no news to it. */
    known = new Set();
    #reading = new Map();
    #sending = new Map();
    #options;
    #observer;
    #requests = 0;
    constructor(options = {}, observer) {
        this.server = new Server(options);
        this.#options = options;
        this.#observer = observer;
    }
    tools(chatId) {
        const { tools } = this.#options;
        return (typeof tools === 'function' ? tools(chatId) : tools) ?? {};
    }
    async sendMessages(options) {
        const { chatId, messages, trigger, messageId, abortSignal } = options;
        const request = this.#begin();
        const sending = new AbortController();
        const reading = new AbortController();
        // A page that is left reads no more, but what it has said is still sent; only the AI SDK ends both.
        follow(abortSignal, sending, reading);
        this.#sending.set(request, sending);
        this.#on(request, { type: 'sent' });
        const post = { ...this.#body(chatId), ...options.body, id: chatId, trigger, messageId };
        const send = (messages, exists) => {
            const fermata = { ...this.#fermata(), ...(exists && { exists }) };
            const headers = plainHeaders(options.headers);
            return this.server.post({ ...post, messages, fermata }, headers, sending.signal);
        };
        try {
            let response;
            if (this.known.has(chatId)) {
                response = await send(messages.slice(-1), true);
                if (response.status === 404) {
                    // It was forgotten, or deleted elsewhere: what this page has of it is what there is.
                    this.known.delete(chatId);
                    response = await send(messages, false);
                }
            }
            else
                response = await send(messages, false);
            // As it is, the AI SDK would show the problem document instead of its words.
            if (!response.ok || response.body === null)
                throw await refusalOf(response);
            this.known.add(chatId);
            this.#reading.set(request, reading);
            this.#on(request, { type: 'accepted' });
            return this.#read(chatId, request, reading, response.body);
        }
        catch (error) {
            this.#on(request, { type: 'refused', error, isAborted: sending.signal.aborted });
            throw error;
        }
        finally {
            this.#sending.delete(request);
        }
    }
    async reconnectToStream(options) {
        const { chatId, abortSignal } = options;
        const prepared = this.#observer?.prepared();
        if (prepared !== undefined && 'error' in prepared)
            throw prepared.error;
        const request = prepared?.request ?? this.#begin();
        const reading = prepared?.abort ?? new AbortController();
        follow(abortSignal, reading);
        const body = prepared?.body ?? (await this.#open(chatId, undefined, request, reading.signal));
        if (body === undefined)
            return null;
        this.known.add(chatId);
        this.#on(request, { type: 'resumed' });
        return this.#read(chatId, request, reading, body);
    }
    /** Asks for the stream of a chat's open run. */
    open(chatId, request, signal) {
        return this.#open(chatId, undefined, request, signal);
    }
    /** Ends the reading of a stream. */
    abortReading(request) {
        this.#reading.get(request)?.abort();
    }
    /** Ends posts that have no answer yet; whether there was one. */
    abortSending() {
        for (const sending of this.#sending.values())
            sending.abort();
        return this.#sending.size > 0;
    }
    #begin() {
        return this.#observer?.begin() ?? ++this.#requests;
    }
    #on(request, event) {
        this.#observer?.on(request, event);
    }
    #open(chatId, position, request, signal) {
        return this.server.openStream(chatId, position, signal, () => {
            this.#on(request, { type: 'retrying' });
        });
    }
    #read(chatId, request, abort, first) {
        this.#reading.set(request, abort);
        return chunkStream({
            first,
            abort,
            silence: this.#options.silence ?? SILENCE,
            reopen: (position) => this.#open(chatId, position, request, abort.signal),
            on: (event) => {
                if (event.type === 'ended')
                    this.#reading.delete(request);
                this.#on(request, event);
            },
            // Whoever looks after the chat loads what is missing. Nobody else can, so the AI SDK shows an error.
            ...(this.#observer === undefined && { onLost: throwLost }),
        });
    }
    /** What a post has besides the messages. */
    #body(chatId) {
        const tools = Object.entries(this.tools(chatId)).map(([name, { description, inputSchema }]) => [
            name,
            { ...(description !== undefined && { description }), parameters: inputSchema },
        ]);
        return {
            ...(tools.length > 0 && { tools: Object.fromEntries(tools) }),
            ...this.#options.body?.(chatId),
        };
    }
    #fermata() {
        const { client = AI_VERSION, hold } = this.#options;
        return { client, ...(hold !== undefined && { hold }) };
    }
}
function throwLost() {
    throw new FermataError(204, 'stream_lost', 'The answer went on while this page was not connected. Reload the page to see it.');
}
/** Aborts what follows a signal. */
function follow(signal, ...controllers) {
    const abort = () => {
        for (const controller of controllers)
            controller.abort();
    };
    if (signal?.aborted === true)
        abort();
    signal?.addEventListener('abort', abort);
}
function plainHeaders(headers) {
    return headers instanceof Headers ? Object.fromEntries(headers.entries()) : { ...headers };
}
//# sourceMappingURL=transport.js.map