// @ts-check
// A client that keeps talking in one chat, by plain HTTP and as clumsily as real ones do: it loses
// connections, answers by either channel, twice, late or never, stops, posts over an open run, and repeats
// requests without a reply. It knows what it was promised.

import { until } from '../harness/until.mjs';
import { Caller } from './caller.mjs';
import { answered, isComplete } from './answers.mjs';
import { Answering } from './answering.mjs';
import { keyOf, mark } from './model.mjs';
import { Reader } from './reader.mjs';
import { BROWSER_TOOLS, mustBeAsked } from './view.mjs';
import { Refused } from './world.mjs';

/** @typedef {import('./world.mjs').CrashWorld} CrashWorld */
/** @typedef {import('./answers.mjs').Answer} Answer */
/** @typedef {import('./view.mjs').Need} Need */
/** @typedef {import('../harness/clients.mjs').Version} Version */
/** @typedef {import('../harness/page.mjs').Message} Message */
/** @typedef {import('../harness/random.mjs').Random} Random */
/**
 * @typedef {{ toolCallId: string, id: string, tool: string, input: unknown, kind: 'approval' | 'output' |
 * 'elicitation', approvalId?: string }} Pending
 */

/** For how long nothing comes before a person wonders, in milliseconds. */
const QUIET = 8_000;

const WHIMS = /** @type {const} */ ([
  'none',
  'none',
  'none',
  'none',
  'leave',
  'leave',
  'read twice',
  'read twice',
  'stop',
  'supersede',
]);
const HOLDS = ['0s', '60ms', '60ms', '10m', '10m'];

export class Talker {
  /** The messages that it has said and the server has taken, oldest first. */
  /** @type {string[]} */
  said = [];
  /** Approvals that it was shown, with their turns. */
  /** @type {Map<string, number>} by call */
  questions = new Map();
  /** Turns whose run was stopped or superseded: its open calls end without what was decided about them. */
  cutShort = new Set();
  /** Turns that the model was made to answer again: what it had said is gone. */
  remade = new Set();
  /** The last message shown of a turn. */
  /** @type {Map<number, Message>} */
  shown = new Map();
  /** The faults in replies. */
  /** @type {string[]} */
  faults = [];
  turn = 0;
  /** `true` if its last turn is over. */
  concluded = false;
  #hold = '0s';
  #reader = new Reader();

  /**
   * @param {CrashWorld} world
   * @param {string} chat
   * @param {Version} version
   */
  constructor(world, chat, version) {
    this.world = world;
    this.chat = chat;
    this.version = version;
    this.random = world.random.fork(chat);
    this.caller = new Caller(world, chat, this.random.fork('doors'));
    this.answering = new Answering(chat, version, this.random, this.caller);
  }

  /** @param {number} turns */
  async talks(turns) {
    while (this.turn < turns) {
      this.turn += 1;
      const random = this.random.fork('turn', this.turn);
      this.#hold = random.pick(HOLDS);
      await this.#says(`${mark(this.chat, this.turn)} ${random.below(1000)}`);
      await this.#follows(random);
      if (random.chance(0.15)) {
        await this.#asksAgain();
        await this.#follows(random.fork('again'));
      }
    }
  }

  /** Stops where it is. */
  halts() {
    this.#reader.leave();
    this.#reader.wake();
  }

  /**
   * Goes on after all was killed: sees to what it does not know about, answers what waits, and takes a last
   * turn.
   */
  async concludes() {
    const random = this.random.fork('conclusion');
    this.#reader.leave();
    await this.caller.unsure?.();
    if (random.chance(0.7)) await this.#answersAll();
    this.turn += 1;
    this.#hold = '0s';
    await this.#says(mark(this.chat, this.turn, true));
    while (this.#reader.connected || (await this.#resumes(random))) {
      await this.#reader.next();
      if (this.#reader.ended) this.#reader.leave();
    }
    await this.#looksAtTheEnd();
  }

  get record() {
    return this.caller.get(`/api/chat/${this.chat}`).then(({ status, body }) => {
      // The chat is gone if the database has forgotten its first message.
      if (status === 404 && this.world.hasLostCommits) return { messages: [], pending: [], open: false };
      return /** @type {{ messages: Message[], pending: Pending[], open: boolean }} */ (body);
    });
  }

  // --- what it asks for ---

  /** @param {string} text */
  async #says(text) {
    const { turn } = this;
    if (this.turn > 1) this.cutShort.add(turn - 1);
    this.#reader.forget();
    for (let version = 0; ; version += 1) {
      const id = version === 0 ? `u-${this.chat}-${turn}` : `u-${this.chat}-${turn}-${version}`;
      const posting = this.#posts(
        { messages: [{ id, role: 'user', parts: [{ type: 'text', text }] }] },
        false,
        (status, tries) => {
          // A known message that is posted again runs again while nothing stands behind it, and is nothing new
          // otherwise.
          if (tries > 1 || this.said.includes(id)) this.remade.add(turn);
          if (status !== 200 && !(status === 409 && this.remade.has(turn)))
            this.faults.push(`a post was answered ${status}`);
          this.said.push(id);
        },
        () => this.random.chance(0.5),
      );
      const isRefused = await posting.then(
        () => false,
        (error) => {
          if (error instanceof Refused) return true;
          throw error;
        },
      );
      if (!isRefused) return;
    }
  }

  async #asksAgain() {
    this.remade.add(this.turn);
    this.shown.delete(this.turn);
    this.#reader.forget();
    await this.#posts({ trigger: 'regenerate-message', messages: [] }, false, (status) => {
      if (status !== 200) this.faults.push(`a regeneration was answered ${status}`);
    });
  }

  /**
   * @param {Record<string, unknown>} body
   * @param {boolean} goesOn
   * @param {(status: number, tries: number) => void} taken
   * @param {() => boolean} [givesUp] as in `Request`
   */
  async #posts(body, goesOn, taken, givesUp) {
    const fermata = { client: this.version, hold: this.#hold };
    const request = {
      method: 'POST',
      path: '/api/chat',
      body: { id: this.chat, tools: BROWSER_TOOLS, fermata, ...body },
      ...(givesUp && { givesUp }),
    };
    await this.#reader.opens(this.caller, request, goesOn, taken);
  }

  /** Follows the open run; `false` where there is none. @param {Random} random */
  async #resumes(random) {
    const { last, count } = this.#reader;
    const headers =
      last !== undefined && count > 0 && random.chance(0.4) ? { 'last-event-id': last } : undefined;
    const request = { method: 'GET', path: `/api/chat/${this.chat}/stream`, ...(headers && { headers }) };
    const status = await this.#reader.opens(this.caller, request, false);
    if (status !== 200 && status !== 204) this.faults.push(`resuming was answered ${status}`);
    return status === 200;
  }

  async #stops() {
    this.#reader.leave();
    this.cutShort.add(this.turn);
    await this.caller.change({ method: 'POST', path: `/api/chat/${this.chat}/stop` }, ({ status }) => {
      if (status !== 204) this.faults.push(`stop was answered ${status}`);
    });
    const { open, pending } = await this.record;
    if (open || pending.length > 0) this.faults.push(`turn ${this.turn} was stopped, and is open still`);
  }

  // --- a run ---

  /** Follows the run until it is over, or until it has had enough of it. @param {Random} random */
  async #follows(random) {
    let whim = random.pick(WHIMS);
    const at = random.below(30);
    const reader = this.#reader;
    let mayAnswerMore = false;
    while (reader.connected || (await this.#resumes(random))) {
      // A version that is shown no decision hears nothing of its answer while others are missing.
      if (!mayAnswerMore) await this.#hears();
      if (reader.count >= at) {
        const now = whim;
        whim = 'none';
        if (await this.#indulges(now)) return;
      }
      const before = this.#open.length;
      await this.#answersSome(random);
      mayAnswerMore = this.#open.length < before;
      if (await this.#hasEnough()) return;
      if (reader.ended) reader.leave();
    }
    if (await this.#isLetGo(random)) await this.#follows(random);
    else await this.#looksAtTheEnd();
  }

  /**
   * Waits for something new. After a failover that has lost commits, the page may show a history that is lost, where nothing is
   * asked: where it is quiet, the chat is loaded again, as a person would do.
   */
  async #hears() {
    while (!(await this.#reader.next(QUIET))) {
      if (this.world.hasLostCommits) return this.#reader.forget();
    }
  }

  /**
   * A run that was let go has no stream: the record has its open calls, even after a restart.
   *
   * @param {Random} random
   * @returns {Promise<boolean>} whether it goes on, having been answered
   */
  async #isLetGo(random) {
    const { pending, messages } = await this.record;
    const waiting = pending
      .map((call) => this.answering.to(needOf(call), this.turn))
      .filter(({ by }) => by !== 'leave');
    for (const { need, acknowledged } of waiting)
      if (acknowledged) this.faults.push(`${need.kind} of ${need.key} was answered, and waits`);
    if (waiting.length === 0) return false;
    const message = messages.at(-1);
    const posted = waiting.filter(({ by }) => by === 'repost');
    if (posted.length === waiting.length && message) await this.#postsRecord(posted, message);
    else await this.answering.aside(waiting, random);
    return true;
  }

  /**
   * @param {typeof WHIMS[number]} whim
   * @returns {Promise<boolean>} whether the turn is over with it
   */
  async #indulges(whim) {
    switch (whim) {
      case 'none':
        return false;
      case 'leave':
        this.#reader.leave();
        return false;
      case 'read twice':
        await new Reader().opens(
          this.caller,
          { method: 'GET', path: `/api/chat/${this.chat}/stream` },
          false,
        );
        return false;
      case 'stop':
        await this.#stops();
        return true;
      case 'supersede':
        this.#reader.leave();
        return true;
    }
  }

  /** Looks at the message of the run once it is over. */
  async #looksAtTheEnd() {
    const { open, pending } = await this.record;
    // What a stream is sent when it is let go is not in the log, and not the end.
    const isEnd = !this.#reader.partial && this.#reader.view.finished && !this.#reader.last?.includes('.');
    if (isEnd && !open && pending.length === 0)
      this.shown.set(this.turn, await this.#reader.view.message(this.version));
  }

  // --- answers ---

  /** The questions that it has not answered. */
  get #open() {
    return this.#reader.view.needs.flatMap((need) => {
      if (need.kind === 'approval') this.questions.set(need.call, this.turn);
      const answer = this.answering.to(need, this.turn);
      return answer.acknowledged ? [] : [answer];
    });
  }

  /** Returns `true` if all open questions are those that it will not answer. */
  async #hasEnough() {
    const open = this.#open;
    if (open.length === 0 || open.some(({ by }) => by !== 'leave')) return false;
    const { pending } = await this.record;
    const isLeft =
      pending.length > 0 &&
      pending.every(({ toolCallId }) => open.some(({ need }) => need.call === toolCallId));
    if (isLeft) this.#reader.leave();
    return isLeft;
  }

  /** @param {Random} random */
  async #answersSome(random) {
    const reader = this.#reader;
    let open = this.#open.filter(({ by }) => by !== 'leave');
    if (open.length > 0 && reader.replays) {
      const { pending } = await this.record;
      open = open.filter(({ need }) =>
        pending.some(({ toolCallId, kind }) => toolCallId === need.call && kind === need.kind),
      );
    }
    const sides = open.filter(({ by }) => by === 'side');
    if (sides.length > 0) return this.answering.aside(sides, random);
    // If the database has forgotten the post with this hold, the run may be that of a post with another one.
    const isShort = this.#hold !== '10m' && !this.world.hasLostCommits;
    if (open.length === 0 || (isShort && !reader.ended)) return;
    if (reader.partial) return this.answering.aside(open, random);
    const message = await reader.view.message(this.version);
    // What a client shows while something is at work it does not post.
    if (reader.view.finished || isComplete(answered(message, open))) await this.#answersByPost(open, message);
    else await this.answering.aside(open, random);
  }

  /**
   * Answers as a page does that has loaded the chat: what it shows came by no stream.
   *
   * @param {Answer[]} answers
   * @param {Message} message
   */
  async #postsRecord(answers, message) {
    this.#reader.forget();
    this.#reader.partial = true;
    await this.#answersByPost(answers, message);
  }

  /** @param {Answer[]} answers @param {Message} shown */
  async #answersByPost(answers, shown) {
    const message = answered(shown, answers);
    await this.#posts({ messages: [message], messageId: message.id }, true, (status, tries) => {
      // What was taken by a post whose reply was lost is nothing new.
      if (status === 200)
        for (const answer of answers.filter((answer) => !this.answering.mayBeRefused(answer)))
          this.answering.acknowledge(answer);
      else if (status === 409 && (tries > 1 || answers.some((answer) => this.answering.mayBeRefused(answer))))
        for (const answer of answers) answer.by = 'side';
      else this.faults.push(`a re-post was answered ${status}`);
    });
  }

  /** Answers all that waits until nothing is open. */
  async #answersAll() {
    for (;;) {
      const { pending, open } = await until(
        () => this.record.then((record) => (!record.open || record.pending.length > 0) && record),
        () => `${this.chat} to wait for somebody, or to be over`,
      );
      if (!open && pending.length === 0) return;
      for (const call of pending) {
        const answer = this.answering.to(needOf(call), this.turn);
        const { kind, key } = answer.need;
        if (answer.acknowledged && kind !== 'elicitation')
          this.faults.push(`${kind} of ${key} was answered, and waits`);
        await this.answering.sends(answer.body, [answer]);
      }
    }
  }
}

/** @param {Pending} call @returns {Need} */
const needOf = ({ toolCallId: call, id, tool, input, kind, approvalId }) => ({
  kind,
  must: mustBeAsked(tool, input),
  id: kind === 'approval' ? (approvalId ?? '?') : id,
  call,
  tool,
  key: keyOf(input) ?? call,
});
