// @ts-check
// A push service and the browsers that listen to it: it checks who sends (VAPID), cannot read what it passes on, and each browser decrypts
// it with its own key.

import { createECDH, randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import { importJWK, jwtVerify } from 'jose';
import { HttpService } from './http-service.mjs';

/** @type {{ decrypt: (body: Buffer, keys: { version: 'aes128gcm', privateKey: import('node:crypto').ECDH, authSecret: Buffer }) => Buffer }} */
const ece = createRequire(import.meta.url)('http_ece');

/** The largest message that every push service takes, in bytes (RFC 8030, section 7.2). */
const LARGEST = 4096;
/** The longest time that a proof may be valid, in seconds (RFC 8292, section 2). */
const LONGEST = 24 * 60 * 60;

/** A browser with a subscription. */
export class Browser {
  #key = createECDH('prime256v1');
  #auth = randomBytes(16);
  /** The messages that it has received. */
  /** @type {Record<string, any>[]} */
  messages = [];
  /** The answer of the service to a message for it: 410 once it has unsubscribed. */
  status = 201;

  /** @param {string} endpoint */
  constructor(endpoint) {
    this.endpoint = endpoint;
    this.#key.generateKeys();
  }

  /** The subscription, as `PushSubscription.toJSON()` returns it. */
  get subscription() {
    const keys = { p256dh: this.#key.getPublicKey('base64url'), auth: this.#auth.toString('base64url') };
    return { endpoint: this.endpoint, expirationTime: null, keys };
  }

  /** @param {Buffer} body */
  receives(body) {
    const keys = {
      version: /** @type {const} */ ('aes128gcm'),
      privateKey: this.#key,
      authSecret: this.#auth,
    };
    this.messages.push(JSON.parse(ece.decrypt(body, keys).toString('utf8')));
  }
}

export class PushService {
  /** @type {HttpService | undefined} */
  #service;
  /** @type {Browser[]} */
  #browsers = [];
  /** The public key that the server gives to browsers. */
  publicKey = '';
  /** Requests that no push service would accept. */
  /** @type {string[]} */
  faults = [];

  static async start() {
    const push = new PushService();
    push.#service = await HttpService.start((request) => push.#take(request));
    return push;
  }

  /** A browser that subscribes. */
  subscribe() {
    const browser = new Browser(`${this.#service?.url}/push/${randomBytes(8).toString('hex')}`);
    this.#browsers.push(browser);
    return browser;
  }

  async stop() {
    await this.#service?.stop();
  }

  /**
   * @param {import('./http-service.mjs').HttpRequest} request
   * @returns {Promise<import('./http-service.mjs').Answer>}
   */
  async #take({ path, headers, body }) {
    const browser = this.#browsers.find(({ endpoint }) => endpoint.endsWith(path));
    if (browser === undefined) return { status: 404 };
    try {
      await this.#proves(headers.authorization ?? '');
      if (headers['content-encoding'] !== 'aes128gcm')
        throw new Error(`it is ${headers['content-encoding']}`);
      if (!/^\d+$/.test(headers.ttl ?? '')) throw new Error('it has no time to live');
      if (body.length > LARGEST) throw new Error(`it has ${body.length} bytes`);
      if (browser.status === 201) browser.receives(body);
    } catch (error) {
      this.faults.push(`${path}: ${error}`);
      return { status: 403 };
    }
    return { status: browser.status };
  }

  /** Checks who sends: a token that the key of the subscription has signed (RFC 8292). @param {string} authorization */
  async #proves(authorization) {
    const [, token = '', key = ''] = /^vapid t=([^,\s]+), k=(\S+)$/.exec(authorization) ?? [];
    if (key !== this.publicKey) throw new Error('it is signed with another key');
    const point = Buffer.from(key, 'base64url');
    const [x, y] = [point.subarray(1, 33).toString('base64url'), point.subarray(33).toString('base64url')];
    const audience = this.#service?.url ?? '';
    const { payload } = await jwtVerify(token, await importJWK({ kty: 'EC', crv: 'P-256', x, y }, 'ES256'), {
      audience,
      algorithms: ['ES256'],
      requiredClaims: ['exp', 'sub'],
    });
    if ((payload.exp ?? 0) > Date.now() / 1000 + LONGEST) throw new Error('it is valid for too long');
    if (!/^(mailto:|https:)/.test(payload.sub ?? '')) throw new Error(`its contact is ${payload.sub}`);
  }
}
