// One stream of chunks for the AI SDK, read over as many connections as it takes.
//
// Each event of the server has an id, `<run>:<number>`; a connection that breaks is opened again after the last
// one that was read. The chunks are pulled one by one, so when the stream ends, the AI SDK has dealt with all
// that came before.
export function chunkStream(options) {
    const chunks = readChunks(options);
    return new ReadableStream({
        async pull(controller) {
            const { done, value } = await chunks.next();
            if (done === true)
                controller.close();
            else
                controller.enqueue(value);
        },
        // The AI SDK could not read what it was told, or wants no more.
        async cancel() {
            options.abort.abort();
            await chunks.return(undefined);
        },
    }, { highWaterMark: 0 });
}
async function* readChunks(options) {
    const { silence, reopen, on, onLost } = options;
    const { signal } = options.abort;
    const reader = new RunReader(silence, signal);
    try {
        let body = options.first;
        while (body !== undefined) {
            yield* reader.read(body);
            // Without a position, all would come again, and some versions of the AI SDK would add it to what they have.
            if (reader.isOver || signal.aborted || reader.position === undefined)
                break;
            on({ type: 'broke' });
            body = await reopen(reader.position);
            if (body !== undefined)
                on({ type: 'reconnected' });
        }
        if (!reader.isWhole && !reader.isOver && !signal.aborted)
            onLost?.();
    }
    finally {
        on({ type: 'ended', isWhole: reader.isWhole, isAborted: signal.aborted });
    }
    return undefined;
}
/** Takes events apart, so that the rest of a run can come from another connection. */
class RunReader {
    /** The last event of the run's log that was read. Events that are meant for one reader only have no position. */
    position;
    /** Whether the run's own end was read. The stream of a run that a new message supersedes ends without it. */
    isWhole = false;
    /** Whether nothing more is to be read. */
    isOver = false;
    #silence;
    #signal;
    #run;
    constructor(silence, signal) {
        this.#silence = silence;
        this.#signal = signal;
    }
    /** Reads until the connection ends, breaks or falls silent. */
    async *read(body) {
        const reader = body.getReader();
        const decoder = new TextDecoder();
        const cancel = () => void reader.cancel().catch(() => undefined);
        if (this.#signal.aborted)
            cancel();
        this.#signal.addEventListener('abort', cancel);
        let rest = '';
        try {
            for (;;) {
                const piece = await inTime(reader.read(), this.#silence).catch(() => undefined);
                if (piece === undefined || piece.done)
                    return;
                const events = (rest + decoder.decode(piece.value, { stream: true })).split('\n\n');
                rest = events.pop() ?? '';
                for (const event of events) {
                    const chunk = this.#take(event);
                    if (this.#signal.aborted)
                        return;
                    if (chunk !== undefined)
                        yield chunk;
                    if (this.isOver && chunk === undefined)
                        return;
                }
            }
        }
        finally {
            this.#signal.removeEventListener('abort', cancel);
            cancel();
        }
    }
    #take(event) {
        const id = /^id: ?(.*)$/m.exec(event)?.[1];
        const [run, number] = id?.split(':') ?? [];
        this.#run ??= run;
        if (run !== undefined && run !== this.#run) {
            // The connection has come to belong to another run.
            this.isOver = true;
            return undefined;
        }
        if (number !== undefined && !number.includes('.'))
            this.position = id;
        const data = /^data: ?(.*)$/m.exec(event)?.[1];
        if (data === undefined)
            return undefined;
        if (data === '[DONE]') {
            this.isOver = true;
            return undefined;
        }
        const chunk = JSON.parse(data);
        if (chunk.type === 'finish' || chunk.type === 'error') {
            this.isWhole = true;
            this.isOver = true;
        }
        return chunk;
    }
}
/** What a promise gives, or `undefined` if that takes too long. */
async function inTime(promise, longest) {
    let timer;
    const late = new Promise((resolve) => {
        timer = setTimeout(resolve, longest, undefined);
    });
    try {
        return await Promise.race([promise, late]);
    }
    finally {
        clearTimeout(timer);
    }
}
//# sourceMappingURL=stream.js.map