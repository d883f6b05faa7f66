// @ts-check
// A service that receives the signed requests of Standard Webhooks, and verifies each with the library of that standard. It is the receiver
// of a webhook, or a decider.

import { randomBytes } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import { HttpService } from './http-service.mjs';

/** @typedef {import('./http-service.mjs').Answer} Answer */
/**
 * An event, as the standard describes its body.
 *
 * @typedef {{ type: string, timestamp: string, data: Record<string, any> }} SignedEvent
 */
/** @typedef {{ id: string, path: string, event: SignedEvent }} Delivery */

/** A new secret, as the standard writes it. */
export const newSecret = () => `whsec_${randomBytes(32).toString('base64')}`;

export class SignedService {
  /** Everything that has arrived, repetitions included. */
  /** @type {Delivery[]} */
  deliveries = [];
  /** Requests that no receiver would accept. */
  /** @type {string[]} */
  faults = [];
  /** Answers a delivery that was verified. */
  /** @type {(delivery: Delivery) => Answer | Promise<Answer>} */
  answers = () => ({ status: 204 });
  #service = /** @type {HttpService | undefined} */ (undefined);

  /** @param {string} [secret] */
  constructor(secret = newSecret()) {
    this.secret = secret;
  }

  static async start() {
    const service = new SignedService();
    service.#service = await HttpService.start((request) => service.#take(request));
    return service;
  }

  get url() {
    return this.#service?.url ?? '';
  }

  /** The events without repetitions, in the order in which their ids arrived. */
  get events() {
    const known = new Set();
    return this.deliveries.filter(({ id }) => !known.has(id) && known.add(id));
  }

  /**
   * A request of the service to the server, signed as the standard describes it.
   *
   * @param {string} url
   * @param {unknown} body
   * @param {{ at?: Date, secret?: string }} [options]
   */
  async posts(url, body, { at = new Date(), secret = this.secret } = {}) {
    const [id, text] = [`msg_${randomBytes(12).toString('hex')}`, JSON.stringify(body)];
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'webhook-id': id,
        'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
        'webhook-signature': new Webhook(secret).sign(id, at, text),
      },
      body: text,
    });
    return { status: response.status, body: /** @type {Record<string, any>} */ (await response.json()) };
  }

  async stop() {
    await this.#service?.stop();
  }

  /** @param {import('./http-service.mjs').HttpRequest} request */
  async #take({ path, headers, body }) {
    let event;
    try {
      event = /** @type {SignedEvent} */ (new Webhook(this.secret).verify(body, headers));
    } catch (error) {
      this.faults.push(`${path}: ${error}`);
      return { status: 401 };
    }
    const delivery = { id: headers['webhook-id'] ?? '', path, event };
    this.deliveries.push(delivery);
    return this.answers(delivery);
  }
}
