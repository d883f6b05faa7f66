// @ts-check
// An HTTP service on this machine that a test plays. It reads the whole body of a request before it answers.

import http from 'node:http';

/** @typedef {{ method: string, path: string, headers: Record<string, string>, body: Buffer }} HttpRequest */
/** @typedef {{ status: number, body?: string, headers?: Record<string, string> }} HttpAnswer */
/** @typedef {HttpAnswer | 'hangs' | 'breaks off'} Answer a service that hangs keeps the connection open and says nothing */
/** @typedef {(request: HttpRequest) => Answer | Promise<Answer>} Handler */

export class HttpService {
  #server;
  #url = '';

  /** @param {http.Server} server */
  constructor(server) {
    this.#server = server;
  }

  /** @param {Handler} handler */
  static async start(handler) {
    const server = http.createServer(async (message, response) => {
      const pieces = [];
      try {
        for await (const piece of message) pieces.push(piece);
      } catch {
        // The sender was killed in the middle of its request.
        return;
      }
      const answer = await handler({
        method: message.method ?? '',
        path: message.url ?? '',
        headers: /** @type {Record<string, string>} */ (message.headers),
        body: Buffer.concat(pieces),
      });
      if (answer === 'hangs') return;
      if (answer === 'breaks off') return void response.destroy();
      response.writeHead(answer.status, { 'content-type': 'application/json', ...answer.headers });
      response.end(answer.body);
    });
    const service = new HttpService(server);
    await new Promise((/** @type {(value: void) => void} */ resolve) =>
      server.listen(0, '127.0.0.1', resolve),
    );
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('the service does not listen');
    service.#url = `http://127.0.0.1:${address.port}`;
    return service;
  }

  get url() {
    return this.#url;
  }

  async stop() {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
