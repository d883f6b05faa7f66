// @ts-check
// What a client shows of the message being written, and the connection that it comes by. A lost connection
// leaves what is shown as it is; a replay from the start replaces it.

import { View } from './view.mjs';

/** @typedef {import('./caller.mjs').Caller} Caller */
/** @typedef {import('./caller.mjs').Request} Request */
/** @typedef {import('../harness/events.mjs').EventStream} EventStream */
/** @typedef {import('../harness/events.mjs').Event} Event */

export class Reader {
  view = new View();
  /** The id of the last event. */
  /** @type {string | undefined} */
  last;
  /** The number of events that it was sent since it was made to forget. */
  count = 0;
  /** `true` if the message has parts that came by no stream. */
  partial = false;
  /** `true` if the connection is a replay, which may show what is over. */
  replays = false;
  /** @type {EventStream | undefined} */
  #stream;
  #connection = {};
  #seen = 0;
  #wake = () => {};

  /** `true` if there is a connection, be it at its end. */
  get connected() {
    return this.#stream !== undefined;
  }

  /** `true` if the connection is over. */
  get ended() {
    return this.#stream?.ended !== false;
  }

  /** Shows nothing from here on. */
  forget() {
    this.leave();
    this.#begins();
    this.count = 0;
    this.#seen = 0;
  }

  #begins() {
    this.view = new View();
    this.partial = false;
  }

  leave() {
    this.#stream?.leave();
    this.#stream = undefined;
    this.#connection = {};
  }

  /**
   * Reads what a request is answered with, in place of what it has read before.
   *
   * @param {Caller} caller
   * @param {Request} request
   * @param {boolean} goesOn whether a `start` in it goes on with what is shown
   * @param {(status: number, tries: number) => void} [taken] where the request changes something: told of the
   * reply, at once
   * @returns {Promise<number>} the status
   */
  async opens(caller, request, goesOn, taken) {
    this.leave();
    const connection = this.#connection;
    let first = true;
    const hears = (/** @type {Event | undefined} */ event) => {
      if (this.#connection !== connection) return;
      if (event !== undefined) {
        if (first && event.chunk.type === 'start' && !goesOn) this.#begins();
        first = false;
        this.view.apply(event.chunk);
        this.last = event.id;
        this.count += 1;
      }
      this.#wake();
    };
    const stream = await caller.stream(request, hears, taken);
    this.replays = request.method === 'GET';
    if (stream.status === 200) this.#stream = stream;
    return stream.status;
  }

  /**
   * Waits until there is something new, or the end.
   *
   * @param {number} [patience] for how long, in milliseconds
   * @returns {Promise<boolean>} `false` if there was nothing for so long
   */
  async next(patience) {
    let isOver = false;
    const timer =
      patience &&
      setTimeout(() => {
        isOver = true;
        this.#wake();
      }, patience);
    while (this.#seen === this.count && !this.ended && !isOver) {
      await new Promise((/** @type {(value: void) => void} */ resolve) => {
        this.#wake = resolve;
      });
    }
    clearTimeout(timer);
    const isNew = this.#seen !== this.count || this.ended;
    this.#seen = this.count;
    return isNew;
  }

  /** Makes the waiter for something new look again: there is nothing more to come. */
  wake() {
    this.#wake();
  }
}
