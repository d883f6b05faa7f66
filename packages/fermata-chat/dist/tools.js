// Runs the page's tools: one tab runs a call, once, and remembers the outcome until the server has it.
import { isInvalid, isSettledElsewhere } from './server.js';
export class ToolRunner {
    #api;
    #chatId;
    #begun = new Set();
    #stop = new AbortController();
    constructor(api, chatId) {
        this.#api = api;
        this.#chatId = chatId;
    }
    /** Gives up what runs: its run was stopped or superseded, so the server has settled the calls. */
    stop() {
        this.#stop.abort();
        this.#stop = new AbortController();
    }
    /** The server has the outcome. */
    forget(toolCallId) {
        storage()?.removeItem(this.#key(toolCallId));
    }
    async run(call) {
        const { toolCallId, isReplay, isPending } = call;
        if (this.#begun.has(toolCallId))
            return;
        this.#begun.add(toolCallId);
        await withLock(this.#key(toolCallId), async (hasWaited) => {
            const { signal } = this.#stop;
            try {
                if ((isReplay || hasWaited) && !(await isPending())) {
                    this.forget(toolCallId);
                    return;
                }
                const outcome = await this.#outcomeOf(call, signal);
                if (signal.aborted)
                    this.forget(toolCallId);
                else
                    await this.#deliver(outcome, call, signal);
            }
            catch (error) {
                if (isSettledElsewhere(error) || signal.aborted)
                    this.forget(toolCallId);
                // The outcome is delivered when the chat is opened again.
                else
                    this.#begun.delete(toolCallId);
            }
        });
    }
    /** Tells the server for as long as it takes. An output that it refuses becomes the call's error. */
    async #deliver(outcome, { deliver }, signal) {
        const goesOn = () => !signal.aborted;
        try {
            await deliver(outcome, goesOn);
        }
        catch (error) {
            if (!isInvalid(error) || 'errorText' in outcome)
                throw error;
            await deliver({ state: 'output-error', errorText: error.message }, goesOn);
        }
    }
    async #outcomeOf({ toolCallId, tool, input }, signal) {
        const known = this.#recall(toolCallId);
        if (known !== undefined && known !== 'begun')
            return known;
        if (known === 'begun' && tool.repeatable !== true) {
            const errorText = 'The page was closed or reloaded while this tool ran in it; whether it took effect is not known.';
            return { state: 'output-error', errorText };
        }
        this.#remember(toolCallId, 'begun');
        let outcome;
        try {
            outcome = { output: (await tool.execute?.(input, { toolCallId, signal })) ?? null };
        }
        catch (error) {
            outcome = { state: 'output-error', errorText: error instanceof Error ? error.message : String(error) };
        }
        this.#remember(toolCallId, outcome);
        return outcome;
    }
    #key(toolCallId) {
        return `fermata ${this.#api} ${this.#chatId} ${toolCallId}`;
    }
    #recall(toolCallId) {
        const known = storage()?.getItem(this.#key(toolCallId)) ?? null;
        return known === null ? undefined : JSON.parse(known);
    }
    #remember(toolCallId, what) {
        try {
            storage()?.setItem(this.#key(toolCallId), JSON.stringify(what));
        }
        catch {
            // It is full; the call still runs once in this page.
        }
    }
}
/** Where the page keeps what must survive it; nothing if the browser forbids it. */
function storage() {
    try {
        return globalThis.localStorage;
    }
    catch {
        return undefined;
    }
}
/** Does something while no other tab does it. */
async function withLock(name, work) {
    const locks = globalThis.navigator?.locks;
    if (locks === undefined)
        return work(false);
    const progress = { hasBegun: false };
    const begin = (hasWaited) => {
        progress.hasBegun = true;
        return work(hasWaited);
    };
    try {
        const isDone = await locks.request(name, { ifAvailable: true }, async (lock) => {
            if (lock === null)
                return false;
            await begin(false);
            return true;
        });
        if (!isDone)
            await locks.request(name, () => begin(true));
    }
    catch (error) {
        if (progress.hasBegun)
            throw error;
        // Locks are refused in a page without an origin of its own, such as a sandboxed frame: it is the only tab.
        await work(false);
    }
}
//# sourceMappingURL=tools.js.map