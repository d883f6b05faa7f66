// @ts-check
// One HTTP request of a page, with its end noticed and its connection at the test's mercy. It changes no byte of it.

export class Exchange {
  #cut = new AbortController();
  status = 0;
  /** Whether the response has been read to its end, or broken. */
  ended = false;

  /**
   * @param {string} method
   * @param {string} url
   */
  constructor(method, url) {
    this.method = method;
    this.url = url;
  }

  /** Breaks the connection, as a network does. */
  cut() {
    this.#cut.abort(new TypeError('network error'));
  }

  /**
   * @param {RequestInit} init
   * @returns {Promise<Response>}
   */
  async run(init) {
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
   * The same bytes, with their end noticed.
   *
   * @param {ReadableStream<Uint8Array>} body
   */
  #watch(body) {
    const reader = body.getReader();
    return new ReadableStream({
      pull: async (controller) => {
        try {
          const { value, done } = await reader.read();
          if (!done) return controller.enqueue(value);
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
