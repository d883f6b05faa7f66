// @ts-check
// The world of a round of channels: instances, and the services at the other side of their channels with everything they have received. A
// service may answer late, fail or hang. The instance that sends to it may be killed between its request and its note of the result.

import { setTimeout as pause } from 'node:timers/promises';
import { change, rows } from '../harness/database.mjs';
import { API_KEY, FakeOpenAi } from '../harness/fake-openai.mjs';
import { MailServer } from '../harness/mail-server.mjs';
import { freePort } from '../harness/ports.mjs';
import { Server } from '../harness/server.mjs';
import { SignedService } from '../harness/signed-service.mjs';
import { SlackApi } from '../harness/slack-api.mjs';
import { until } from '../harness/until.mjs';

/** @typedef {import('../harness/random.mjs').Random} Random */
/** @typedef {import('../harness/services.mjs').Postgres} Postgres */
/** @typedef {import('../harness/fake-openai.mjs').ModelRequest} ModelRequest */
/** @typedef {'ops' | 'risk' | 'team' | 'mail'} ChannelName */
/** @typedef {{ settings?: Record<string, string>, instances?: number, database?: Postgres }} Setup */
/**
 * @typedef {object} Approval
 * @property {string} id
 * @property {string} state
 * @property {{ title: string, body: Body }} input
 * @property {string} inputHash
 * @property {{ by: string | null, channel: string } | null} settled
 */
/** @typedef {'people' | 'risk'} Body the content of a note, which says who decides about it */
/** @typedef {{ status: number, text: string }} Reply */

/** The people who may decide, with their accounts at Slack. */
export const PEOPLE = { alice: 'U111', bob: 'U222' };
/** Accounts at Slack that may not decide: the requester's, and one that no user has. */
export const OTHERS = { dave: 'U444', nobody: 'U999' };
const PUBLIC_URL = 'https://chat.example.com';
/** The mark of a user message, with the titles of the notes that it asks for. */
const MARK = /\[(c\d+) (\S+)]/;

/** @param {string} name */
const token = (name) => `token-of-${name}-0123456789`;

export class ChannelsWorld {
  #started = Date.now();
  /** @type {string[]} */
  #trace = [];
  /** @type {Server[]} */
  servers = [];
  kills = 0;
  /** The number of kills that are still to come. */
  #left;
  /** `true` once every service works. */
  isCalm = false;
  /** Channels that have failed once. */
  /** @type {Set<ChannelName>} */
  #failed = new Set();
  /** The instances that have been killed and do not run again yet. */
  /** @type {Map<Server, Promise<void>>} */
  #down = new Map();
  #deliveries = 0;
  #doors;
  /** Faults of the world itself. */
  /** @type {string[]} */
  faults = [];

  /**
   * @param {Random} random
   * @param {{ api: FakeOpenAi, ops: SignedService, risk: SignedService, slack: SlackApi, mail: MailServer }} peers
   * @param {Setup} setup
   */
  constructor(random, peers, setup) {
    this.random = random;
    this.peers = peers;
    this.setup = setup;
    this.#left = 1 + random.below(3);
    this.#doors = random.fork('doors');
    const { api, ops, risk, slack, mail } = peers;
    api.improvise = writes;
    ops.answers = async ({ path }) => {
      const answer = await this.#takes('ops', Number(path[1]));
      if (answer === 'hangs') return 'hangs';
      return { status: answer === 'fails' ? 500 : 204 };
    };
    risk.answers = async ({ path, event }) => {
      const answer = await this.#takes('risk', Number(path[1]));
      if (answer === 'hangs') return 'hangs';
      if (answer === 'fails') return { status: 502 };
      return this.decides(/** @type {Approval} */ (event.data));
    };
    slack.answers = async ({ prefix }) => {
      const answer = await this.#takes('team', Number(prefix[1]));
      return answer === 'works' ? 'done' : answer === 'hangs' ? 'done unanswered' : 'fails';
    };
    mail.answers = async ({ from }) => {
      const answer = await this.#takes('mail', Number(/\d/.exec(from)?.[0]));
      return answer === 'works' ? 'taken' : answer === 'hangs' ? 'taken unanswered' : 'refused';
    };
  }

  /** Answers the question of an instance in place of the decider. */
  /** @type {(approval: Approval) => import('../harness/http-service.mjs').Answer} */
  decides = () => ({ status: 202 });

  /** @param {Random} random @param {Setup} setup */
  static async create(random, setup) {
    const peers = {
      api: await FakeOpenAi.start(),
      ops: await SignedService.start(),
      risk: await SignedService.start(),
      slack: await SlackApi.start(),
      mail: await MailServer.start(),
    };
    const world = new ChannelsWorld(random, peers, setup);
    try {
      for (let place = 1; place <= (setup.instances ?? 1); place += 1) {
        const server = new Server(await freePort(), {
          OPENAI_BASE_URL: peers.api.url,
          OPENAI_API_KEY: API_KEY,
          FERMATA_MODEL: 'test-model',
          FERMATA_MAX_ATTEMPTS: '1000',
          ...(setup.database && { DATABASE_URL: setup.database.url }),
          ...setup.settings,
        });
        world.servers.push(server);
        server.configure(config(peers, place));
        await server.start();
      }
      return world;
    } catch (error) {
      await world.dispose();
      throw error;
    }
  }

  /** @param {string} who @param {string} what */
  note(who, what) {
    this.#trace.push(`${String(Date.now() - this.#started).padStart(6)} ${who.padEnd(7)} ${what}`);
  }

  get trace() {
    return this.#trace.join('\n');
  }

  /** @param {string} query @returns {Promise<Record<string, unknown>[]>} */
  async rows(query) {
    const [server] = this.servers;
    return this.setup.database?.rows(query) ?? (server ? rows(server, query) : []);
  }

  /**
   * Sends a request to any instance.
   *
   * @param {string} path
   * @param {{ as?: string, body?: unknown, method?: string }} [request]
   * @returns {Promise<Reply | undefined>} nothing if it was not answered
   */
  async sends(path, { as, body, method } = {}) {
    const headers = {
      'content-type': 'application/json',
      ...(as && { authorization: `Bearer ${token(as)}` }),
    };
    const init = { method: method ?? (body === undefined ? 'GET' : 'POST'), headers };
    return this.#sends(async (url) => {
      const response = await fetch(url + path, {
        ...init,
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      return { status: response.status, text: await response.text() };
    });
  }

  /**
   * Sends a request until it is answered with another status than 503.
   *
   * @param {string} path
   * @param {{ as?: string, body?: unknown, method?: string }} [request]
   * @returns {Promise<Reply>}
   */
  async request(path, request) {
    return answered(() => this.sends(path, request));
  }

  /**
   * Does the same with a request that the caller sends.
   *
   * @param {(url: string) => Promise<Reply>} send
   * @returns {Promise<Reply>}
   */
  async tries(send) {
    return answered(() => this.#sends(send));
  }

  /** @param {(url: string) => Promise<Reply>} send @returns {Promise<Reply | undefined>} */
  async #sends(send) {
    const there = this.servers.filter(({ alive }) => alive);
    return there.length === 0 ? undefined : send(this.#doors.pick(there).url).catch(() => undefined);
  }

  /** All approvals, as their requester sees them. @returns {Promise<Approval[]>} */
  async approvals() {
    const { status, text } = await this.request('/api/approvals?state=all&limit=200', { as: 'dave' });
    if (status !== 200) throw new Error(`the list of approvals is ${status} ${text}`);
    return JSON.parse(text).approvals;
  }

  /**
   * Kills every instance for the last time, and waits until the outbox is empty.
   */
  async drains() {
    this.isCalm = true;
    this.#left = 0;
    await Promise.all(this.#down.values());
    await Promise.all(this.servers.map((server) => server.kill()));
    this.kills += this.servers.length;
    this.note('killer', 'has killed all instances');
    await this.#timePasses();
    await Promise.all(this.servers.map((server) => server.start()));
    const open = async () => this.rows('select channel, event, approval_id, attempts, error from outbox');
    await until(
      async () => (await open()).length === 0,
      () => 'the outbox to be empty',
      60_000,
    ).catch(async (error) => {
      throw new Error(`${error.message}: ${JSON.stringify(await open())}`);
    });
  }

  async dispose() {
    const { api, ops, risk, slack, mail } = this.peers;
    await Promise.all(this.servers.map((server) => server.discard()));
    await Promise.all([api.stop(), ops.stop(), risk.stop(), slack.stop(), mail.stop()]);
  }

  /**
   * Chooses how a service answers an instance. It may also kill the instance, before the answer or just after it.
   *
   * @param {ChannelName} channel
   * @param {number} place of the instance
   * @returns {Promise<'works' | 'fails' | 'hangs'>}
   */
  async #takes(channel, place) {
    const random = this.random.fork('delivery', this.#deliveries++);
    if (this.isCalm) return 'works';
    const server = this.servers[place - 1];
    // An instance sends already while it starts.
    if (server !== undefined && !this.#down.has(server) && this.#left > 0 && random.chance(0.25)) {
      this.#left -= 1;
      if (random.chance(0.5)) {
        await this.#kills(channel, server, random);
        return 'hangs';
      }
      setTimeout(() => void this.#kills(channel, server, random), random.below(10));
      return 'works';
    }
    const manner = random.next();
    // A round can wait for the first pause after a failure, which takes five seconds. Later ones are longer, and a kill counts as a failure.
    const mayFail = channel === 'ops' || (this.kills === 0 && !this.#failed.has(channel));
    if (manner < 0.1 && mayFail) {
      this.#failed.add(channel);
      this.note(channel, `fails for instance ${place}`);
      return 'fails';
    }
    // No person waits for this channel.
    if (manner < 0.2 && channel === 'ops') {
      this.note(channel, `hangs for instance ${place}`);
      return 'hangs';
    }
    if (manner < 0.4) await pause(random.below(200));
    return 'works';
  }

  /**
   * Kills an instance, and starts it again once its claims are over.
   *
   * @param {ChannelName} channel
   * @param {Server} server
   * @param {Random} random
   */
  async #kills(channel, server, random) {
    if (this.isCalm || this.#down.has(server)) return;
    const place = this.servers.indexOf(server) + 1;
    this.kills += 1;
    const killed = server.kill();
    const again = async () => {
      await killed;
      this.note('killer', `has killed instance ${place}, which was sending to ${channel}`);
      await pause(random.below(100));
      await this.#timePasses();
      await server.start();
      this.note('killer', `has started instance ${place}`);
      this.#down.delete(server);
    };
    this.#down.set(
      server,
      again().catch((error) => void this.faults.push(`instance ${place} does not start: ${error}`)),
    );
    await killed;
  }

  /** Ends the claims of instances that are gone, and the pauses after failures, as half a minute would. */
  async #timePasses() {
    const statement = 'update outbox set next_at = 0 where next_at is not null';
    const [server] = this.servers;
    if (this.setup.database) await this.setup.database.rows(statement);
    else if (server) await change(server, statement);
  }
}

/**
 * Returns the settings of an instance. The path of its requests, or the sender of its mails, names it.
 *
 * @param {ChannelsWorld['peers']} peers
 * @param {number} place
 */
const config = ({ ops, risk, slack, mail }, place) => `
auth = "token"
public_url = "${PUBLIC_URL}"
${[...Object.keys(PEOPLE), 'dave']
  .map(
    (name) => `[users.${name}]
token = "${token(name)}"
email = "${name}@example.com"
groups = [${name === 'dave' ? '' : '"finance"'}]`,
  )
  .join('\n')}
[[policy]]
tool = "write_note"
input = { body = "risk" }
decision = "ask"
by = ["channel:risk"]
[[policy]]
tool = "write_note"
decision = "ask"
by = ["group:finance"]
notify = ["team", "mail"]
[channels.ops]
kind = "webhook"
private = true
url = "${ops.url}/${place}"
secret = "${ops.secret}"
events = ["approval.*", "run.*"]
[channels.risk]
kind = "decider"
private = true
url = "${risk.url}/${place}"
secret = "${risk.secret}"
[channels.team]
${slack.settings({ [PEOPLE.alice]: 'alice', [PEOPLE.bob]: 'bob', [OTHERS.dave]: 'dave' }, `/${place}`)}
[channels.mail]
kind = "email"
private = true
smtp = "${mail.url}"
from = "Fermata <fermata${place}@example.com>"
links = true
`;

/** @param {() => Promise<Reply | undefined>} send @returns {Promise<Reply>} */
const answered = (send) =>
  until(
    async () => {
      const reply = await send();
      return reply?.status === 503 ? undefined : reply;
    },
    'an answer of any instance',
    60_000,
  );

/** @param {string} link of a mail @returns {string} its path at an instance */
export const pathOf = (link) => link.slice(PUBLIC_URL.length);

/** @param {string} chat @param {{ title: string, body: Body }[]} notes */
export const asksFor = (chat, notes) =>
  `[${chat} ${notes.map(({ title, body }) => `${title}=${body}`).join(',')}]`;

/**
 * A model that writes the notes which the user asks for.
 *
 * @param {ModelRequest} request
 * @returns {import('../harness/fake-openai.mjs').Reply}
 */
const writes = (request) => (pen) => {
  const [, , notes = ''] = MARK.exec(request.words.join('\n')) ?? [];
  if (request.results.length > 0) return pen.says('Done.');
  for (const [place, words] of notes.split(',').entries()) {
    const [title, body] = words.split('=');
    pen.calls({ name: 'write_note', input: { title, body }, id: `call_${place}_${title}` });
  }
};
