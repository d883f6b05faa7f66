// @ts-check
// What was found out about the clients: a cell for each capability and client, and what each client was sent
// meanwhile. It does not know how that is written down.

import { CLIENTS } from './clients.mjs';

/** @typedef {import('./clients.mjs').Client} Client */
/** @typedef {import('./scenario.mjs').World} World */
/** @typedef {import('./scenario.mjs').WorldOptions} WorldOptions */
/**
 * The finding for a client.
 *
 * @typedef {object} Finding
 * @property {string} cell in a word or two
 * @property {string} [note] in a sentence or two
 */
/**
 * Something that a front end may want, and a run that shows what comes of it.
 *
 * @typedef {object} OwnFields
 * @property {string} name
 * @property {string} [todo] what the server does not do yet; the run may fail
 * @property {(world: World) => Promise<Finding | void>} shows nothing to say: it works as the AI SDK
 * describes it
 */
/** @typedef {WorldOptions & OwnFields} Capability */
/** @typedef {{ title: string, capabilities: Capability[] }} Group */
/** @typedef {Map<string, Set<string>>} Sent the fields of each type of chunk */

/** A capability that works as the AI SDK describes it. */
const WORKS = { cell: 'yes' };

export class Findings {
  /** @type {Map<Capability, Map<Client, Finding>>} */
  #found = new Map();
  /** @type {Map<Client, Sent>} */
  #sent = new Map(CLIENTS.map((client) => [client, new Map()]));

  /** @param {Group[]} groups */
  constructor(groups) {
    this.groups = groups;
    for (const { capabilities } of groups)
      for (const capability of capabilities) this.#found.set(capability, new Map());
  }

  /** `true` if every capability was tried with every client. */
  get areComplete() {
    return [...this.#found.values()].every((cells) => cells.size === CLIENTS.length);
  }

  /**
   * @param {Capability} capability
   * @param {Client} client
   * @param {Finding} [finding]
   */
  note(capability, client, finding = WORKS) {
    this.#found.get(capability)?.set(client, finding);
  }

  /**
   * Notes down what the pages of a world were sent, but for those that did not say their version.
   *
   * @param {World} world
   */
  noteChunks({ client, pages }) {
    const sent = this.sentTo(client);
    const exchanges = pages.filter(({ silent }) => !silent).flatMap((page) => page.exchanges);
    for (const chunk of exchanges.flatMap((exchange) => exchange.chunks)) {
      sent.set(chunk.type, new Set([...(sent.get(chunk.type) ?? []), ...Object.keys(chunk)]));
    }
  }

  /**
   * @param {Capability} capability
   * @param {Client} client
   */
  of(capability, client) {
    const finding = this.#found.get(capability)?.get(client);
    if (finding === undefined) throw new Error(`${capability.name} was not tried with ${client.package}`);
    return finding;
  }

  /** @param {Client} client @returns {Sent} */
  sentTo(client) {
    return this.#sent.get(client) ?? new Map();
  }
}
