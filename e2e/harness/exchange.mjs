// @ts-check
// One HTTP request of a page, with what it was answered noted down and its connection at the test's mercy. It
// changes no byte of it.

export class Exchange {
  #cut = new AbortController();
  status = 0;
  /** `true` if the response has been read to its end, or broken. */
  ended = false;

  #init;
  #received = '';

  /**
   * @param {string} url
   * @param {RequestInit} init
   */
  constructor(url, init) {
    this.url = url;
    this.method = init.method ?? 'GET';
    this.#init = init;
  }

  /** The reason that the client gives for its post. */
  get trigger() {
    const { body } = this.#init;
    if (typeof body !== 'string') return undefined;
    return /** @type {{ trigger?: string }} */ (JSON.parse(body)).trigger;
  }

  /** The chunks that the client was sent so far. */
  get chunks() {
    const whole = this.#received.split('\n\n').slice(0, -1);
    const data = whole.flatMap((block) => block.split('\n')).filter((line) => line.startsWith('data: {'));
    return data.map(
      (line) => /** @type {import('./events.mjs').Chunk} */ (JSON.parse(line.slice('data: '.length))),
    );
  }

  /** Breaks the connection, as a network does. */
  cut() {
    this.#cut.abort(new TypeError('network error'));
  }

  /** @returns {Promise<Response>} */
  async run() {
    const init = this.#init;
    const signals = [this.#cut.signal, ...(init.signal ? [init.signal] : [])];
    try {
      const response = await fetch(this.url, { ...init, signal: AbortSignal.any(signals) });
      this.status = response.status;
      if (response.body === null) {
        this.ended = true;
        return response;
      }
      return new Response(this.#watch(response.body), { status: response.status, headers: response.headers });
    } catch (error) {
      this.ended = true;
      throw error;
    }
  }

  /**
   * The same bytes, noted down, with their end noticed.
   *
   * @param {ReadableStream<Uint8Array>} body
   */
  #watch(body) {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    return new ReadableStream({
      pull: async (controller) => {
        try {
          const { value, done } = await reader.read();
          if (!done) {
            this.#received += decoder.decode(value, { stream: true });
            return controller.enqueue(value);
          }
          this.ended = true;
          controller.close();
        } catch (error) {
          this.ended = true;
          controller.error(error);
        }
      },
      cancel: (reason) => {
        this.ended = true;
        return reader.cancel(reason);
      },
    });
  }
}
