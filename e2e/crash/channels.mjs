// @ts-check
// One round of channels: chats ask for notes, and people and a decider decide about them through all channels. Meanwhile services fail, hang
// or answer late, the instances that send to them are killed, and others try to decide. In the end all instances are killed once more, the
// services work, and the round compares the deliveries with the outcomes.

import { isDeepStrictEqual } from 'node:util';
import { setTimeout as pause } from 'node:timers/promises';
import { linksOf } from '../harness/mail-server.mjs';
import { Random } from '../harness/random.mjs';
import { newSecret } from '../harness/signed-service.mjs';
import { buttonsOf } from '../harness/slack-api.mjs';
import { until } from '../harness/until.mjs';
import { ChannelsWorld, OTHERS, PEOPLE, asksFor, pathOf } from './channels-world.mjs';

/** @typedef {import('./channels-world.mjs').Approval} Approval */
/** @typedef {import('./channels-world.mjs').Body} Body */
/** @typedef {import('./channels-world.mjs').Setup} Setup */
/**
 * The decision about a note.
 *
 * @typedef {object} Plan
 * @property {string} title
 * @property {Body} body
 * @property {boolean} approves
 * @property {'alice' | 'bob'} by
 * @property {'api' | 'slack' | 'mail'} through
 * @property {boolean} isContested whether the other person decides the opposite at the same time
 */

/** A failed event is sent again after five seconds, and an instance that is gone is noticed after ten at most. */
const PATIENCE = 60_000;
const PAUSE = 50;
const LOG_LINES = 60;
const FINAL = ['approved', 'denied'];

/**
 * @param {string | number} seed
 * @param {Setup} [setup]
 * @returns {Promise<{ kills: number, requests: number }>}
 */
export async function channelsRound(seed, setup = {}) {
  const random = new Random('channels', seed);
  const world = await ChannelsWorld.create(random.fork('world'), setup);
  try {
    const chats = Array.from({ length: 2 + random.below(3) }, (_, place) => `c${place + 1}`);
    const plans = new Map(chats.map((chat) => [chat, plansOf(chat, random.fork(chat))]));
    await talks(world, plans, random);
    await world.drains();
    const faults = await faultsOf(world, [...plans.values()].flat());
    if (faults.length > 0) throw new Error(faults.join('\n'));
    return { kills: world.kills, requests: world.peers.api.requests.length };
  } catch (error) {
    throw new Error(story(seed, world, error), { cause: error });
  } finally {
    await world.dispose();
  }
}

/** @param {string} chat @param {Random} random @returns {Plan[]} */
const plansOf = (chat, random) =>
  Array.from({ length: 1 + random.below(2) }, (_, place) => ({
    title: `${chat}.${place}`,
    body: random.chance(0.35) ? 'risk' : 'people',
    approves: random.chance(0.7),
    by: random.pick(['alice', 'bob']),
    through: random.pick(['api', 'slack', 'mail']),
    isContested: random.chance(0.3),
  }));

/** The person who does not decide as planned. @param {Plan} plan */
const rivalOf = ({ by }) => (by === 'alice' ? 'bob' : 'alice');

/** All chats ask, everything is decided, and all runs end. @param {ChannelsWorld} world @param {Map<string, Plan[]>} plans @param {Random} random */
async function talks(world, plans, random) {
  const all = [...plans.values()].flat();
  world.decides = (approval) => {
    const { approves = false } = all.find(({ title }) => title === approval.input.title) ?? {};
    const verdict = { approved: approves, reason: 'By its score.' };
    if (random.fork('decider', approval.input.title).chance(0.5))
      return { status: 200, body: JSON.stringify(verdict) };
    void answersLater(world, { ...verdict, approvalId: approval.id, inputHash: approval.inputHash });
    return { status: 202 };
  };
  await Promise.all([...plans].map(([chat, notes]) => asks(world, chat, notes)));
  const decided = all.map(async (plan) => {
    const approval = await until(
      async () => (await world.approvals()).find(({ input }) => input.title === plan.title),
      `an approval of ${plan.title}`,
      PATIENCE,
    );
    await intrudes(world, approval, random.fork('intruder', plan.title));
    if (plan.body === 'people') await decides(world, approval, plan);
    await until(() => isSettled(world, plan), `the outcome of ${plan.title}`, PATIENCE);
    world.note('people', `${plan.title} is settled`);
  });
  await Promise.all(decided);
  for (const chat of plans.keys())
    await until(
      async () => {
        const { status, text } = await world.request(`/api/chat/${chat}`, { as: 'dave' });
        return status === 200 && !JSON.parse(text).open;
      },
      `the end of the run of ${chat}`,
      PATIENCE,
    );
}

/** @param {ChannelsWorld} world @param {Plan} plan */
async function isSettled(world, { title }) {
  await pause(PAUSE);
  const approval = (await world.approvals()).find(({ input }) => input.title === title);
  return FINAL.includes(approval?.state ?? '');
}

/** Posts a message, unless an instance that was killed has taken it. @param {ChannelsWorld} world @param {string} chat @param {Plan[]} notes */
async function asks(world, chat, notes) {
  const message = { id: `u-${chat}`, role: 'user', content: asksFor(chat, notes) };
  await until(
    async () => {
      const known = await world.request(`/api/chat/${chat}`, { as: 'dave' });
      if (known.status === 200 && JSON.parse(known.text).messages.length > 0) return true;
      const body = { id: chat, message, fermata: { hold: '0s' } };
      // A second post of a message that was taken would begin another run.
      await world.sends('/api/chat', { as: 'dave', body });
      return false;
    },
    `the message of ${chat} to be taken`,
    PATIENCE,
  );
}

/** Sends the verdict until it is taken, and once more. @param {ChannelsWorld} world @param {object} verdict */
async function answersLater(world, verdict) {
  const send = () =>
    world.tries(async (url) => {
      const { status, body } = await world.peers.risk.posts(`${url}/channels/risk`, verdict);
      return { status, text: JSON.stringify(body) };
    });
  const replies = [await send(), await send()];
  world.note('risk', `answers later: ${replies.map(({ status }) => status)}`);
}

/** Decides about an approval as it was planned, until that counts. @param {ChannelsWorld} world @param {Approval} approval @param {Plan} plan */
async function decides(world, { id, inputHash }, plan) {
  const { approves, by, through } = plan;
  const { slack, mail } = world.peers;
  /** @type {() => Promise<unknown>} */
  const votes = async () => {
    if (through === 'slack') {
      const message = slack.messages.find(({ blocks }) => JSON.stringify(blocks).includes(id));
      if (message === undefined || buttonsOf(message).length === 0) return;
      const click = {
        user: PEOPLE[by],
        button: slack.button(message, approves ? 'Approve' : 'Deny'),
        message,
      };
      const { status } = await world.tries(async (url) => {
        const reply = await slack.clicks(`${url}/channels/team`, click);
        return { status: reply.status, text: reply.body };
      });
      if (status !== 200) throw new Error(`a click is answered with ${status}`);
      return;
    }
    if (through === 'mail') {
      const received = mail
        .to(`${by}@example.com`)
        .find(({ text }) => text.includes(plan.title) && /^Approve: /m.test(text));
      if (received === undefined) return;
      const { approve, deny } = linksOf(received);
      const { status } = await world.request(pathOf(approves ? approve : deny), { method: 'POST' });
      // The answer to an earlier attempt was lost. The same vote once more changes nothing.
      if (status !== 410) return;
    }
    await world.request(`/api/approvals/${id}`, { as: by, body: { approved: approves, inputHash } });
  };
  const opposite = { as: rivalOf(plan), body: { approved: !approves, inputHash } };
  const contests = plan.isContested ? world.request(`/api/approvals/${id}`, opposite) : undefined;
  await until(
    async () => {
      if (await isSettled(world, plan)) return true;
      await votes();
      return false;
    },
    `the vote of ${by} about ${plan.title} through ${through}`,
    PATIENCE,
  );
  await contests;
}

/** Somebody who may not decide tries to approve. @param {ChannelsWorld} world @param {Approval} approval @param {Random} random */
async function intrudes(world, { id, inputHash, input }, random) {
  const { slack, risk } = world.peers;
  const value = JSON.stringify({ approval: id, inputHash });
  const button = { type: 'button', action_id: 'fermata_approve', value };
  const message = { ts: '1.0', text: '', blocks: [] };
  /** @param {string} user @param {object} [options] @returns {Promise<import('./channels-world.mjs').Reply>} */
  const clicks = (user, options) =>
    world.tries(async (url) => {
      const reply = await slack.clicks(`${url}/channels/team`, { user, button, message }, options);
      return { status: reply.status, text: reply.body };
    });
  const verdict = { approvalId: id, approved: true, inputHash };
  /** @type {Record<string, () => Promise<[number, number[]]>>} what was answered, and what may be */
  const ways = {
    requester: async () => [
      (await world.request(`/api/approvals/${id}`, { as: 'dave', body: { approved: true } })).status,
      [403, 409],
    ],
    'requester at Slack': async () => [(await clicks(OTHERS.dave)).status, [200]],
    'nobody at Slack': async () => [(await clicks(OTHERS.nobody)).status, [200]],
    'forged click': async () => [(await clicks(PEOPLE.alice, { secret: 'another' })).status, [401]],
    'forged verdict': async () => [
      (
        await world.tries(async (url) => {
          const { status } = await risk.posts(`${url}/channels/risk`, verdict, { secret: newSecret() });
          return { status, text: '' };
        })
      ).status,
      [401],
    ],
    'invented link': async () => [
      (await world.request(`/channels/mail/l/${'A'.repeat(43)}`, { method: 'POST' })).status,
      [404],
    ],
    'person in place of the decider': async () =>
      input.body === 'risk'
        ? [
            (await world.request(`/api/approvals/${id}`, { as: 'alice', body: { approved: true } })).status,
            [404],
          ]
        : [200, [200]],
    'decider in place of a person': async () => {
      if (input.body === 'risk') return [200, [200]];
      const reply = await world.tries(async (url) => {
        const { status } = await risk.posts(`${url}/channels/risk`, verdict);
        return { status, text: '' };
      });
      return [reply.status, [403, 404]];
    },
  };
  for (let left = random.below(3); left > 0; left -= 1) {
    const way = random.pick(Object.keys(ways));
    const [status, allowed] = (await ways[way]?.()) ?? [0, []];
    if (!allowed.includes(status)) throw new Error(`${way}: ${status} about ${input.title}`);
  }
}

/** @param {ChannelsWorld} world @param {Plan[]} plans */
async function faultsOf(world, plans) {
  const { api, ops, risk, slack, mail } = world.peers;
  const faults = [...world.faults, ...api.verdict, ...ops.faults, ...risk.faults, ...slack.faults];
  const approvals = await world.approvals();
  const notes = await world.rows('select title, count(*) as times from notes group by title');
  const events = await world.rows(
    'select approval_id, event, outcome, principal from audit_events where approval_id is not null',
  );
  for (const plan of plans) {
    const { title, body, by, isContested } = plan;
    const found = approvals.filter(({ input }) => input.title === title);
    const [approval] = found;
    if (approval === undefined || found.length > 1) {
      faults.push(`there are ${found.length} approvals of ${title}`);
      continue;
    }
    const { id, state, settled } = approval;
    const isContrary = body === 'people' && isContested && settled?.by === rivalOf(plan);
    const who = isContrary ? rivalOf(plan) : body === 'risk' ? 'channel:risk' : by;
    const approves = plan.approves !== isContrary;
    if (state !== (approves ? 'approved' : 'denied') || settled?.by !== who)
      faults.push(`${title} is ${state} by ${settled?.by}, and ${who} said ${approves}`);
    // A call that was killed while it ran may have had its effect.
    const isUnknown = events.some((row) => row.approval_id === id && row.event === 'outcome_unknown');
    const times = Number(notes.find((note) => note.title === title)?.times ?? 0);
    if (times > (approves ? 1 : 0) || (approves && times === 0 && !isUnknown))
      faults.push(`${title} is ${state} and was written ${times} times`);
    const settling = events.filter((row) => row.approval_id === id && row.outcome === 'settled');
    if (settling.length !== 1) faults.push(`${title} was settled by ${JSON.stringify(settling)}`);
    const started = events.filter((row) => row.approval_id === id && row.event === 'started').length;
    if (started !== (approves ? 1 : 0)) faults.push(`${title} is ${state} and was started ${started} times`);

    const types = ops.events
      .filter(({ event }) => event.data.id === id)
      .map(({ event }) => `${event.type} ${event.data.state}`);
    const expected = ['approval.requested waiting', `approval.settled ${state}`];
    if (!isDeepStrictEqual(types, expected)) faults.push(`the events of ${title} are ${types}`);
    const asked = risk.events.filter(({ event }) => event.data.id === id).map(({ event }) => event.type);
    if (!isDeepStrictEqual(asked, body === 'risk' ? ['approval.requested'] : []))
      faults.push(`the decider was asked about ${title}: ${asked}`);
    faults.push(...faultsOfMails(world, plan), ...faultsOfSlack(world, plan, id));
  }
  const chats = new Set(plans.map(({ title }) => title.split('.')[0]));
  const ended = ops.events
    .filter(({ event }) => event.type.startsWith('run.'))
    .map(({ event }) => `${event.type} ${event.data.chatId}`);
  const expected = [...chats].map((chat) => `run.finished ${chat}`);
  if (!isDeepStrictEqual(ended.toSorted(), expected.toSorted())) faults.push(`the ends of runs are ${ended}`);
  for (const { id, event } of [...ops.deliveries, ...risk.deliveries]) {
    const first = [...ops.events, ...risk.events].find((delivery) => delivery.id === id);
    if (!isDeepStrictEqual(first?.event, event)) faults.push(`${id} names two events`);
  }
  if (mail.to('dave@example.com').length > 0) faults.push('the requester has received a mail');
  return faults;
}

/**
 * A person has at most one mail of each event, and the outcome follows the request as a reply. There may be an outcome alone, if an instance
 * was killed before it sent the request.
 *
 * @param {ChannelsWorld} world
 * @param {Plan} plan
 */
function faultsOfMails({ peers: { mail } }, { title, body }) {
  const faults = [];
  for (const name of Object.keys(PEOPLE)) {
    const mails = mail.to(`${name}@example.com`).filter(({ text }) => text.includes(`"${title}"`));
    const requests = new Set(mails.filter(({ text }) => /^Approve: /m.test(text)).map(({ id }) => id));
    const outcomes = mails.filter(({ text }) => !/^Approve: /m.test(text));
    const isFollowed =
      outcomes.length > 0 && outcomes.every(({ inReplyTo }) => requests.has(inReplyTo ?? ''));
    const isWhole = requests.size === 0 || (requests.size === 1 && isFollowed);
    if (!isWhole || new Set(outcomes.map(({ id }) => id)).size > 1)
      faults.push(
        `the mails of ${name} about ${title}: ${mails.map(({ subject, id }) => `${subject} ${id}`)}`,
      );
    if (body === 'risk' && mails.length > 0) faults.push(`${name} has a mail about ${title}`);
  }
  return faults;
}

/**
 * A message about a settled approval has no buttons, unless an instance was killed before it noted the message.
 *
 * @param {ChannelsWorld} world
 * @param {Plan} plan
 * @param {string} id
 */
function faultsOfSlack({ peers: { slack }, kills }, { title, body }, id) {
  const posts = slack.calls.filter(
    ({ method, body: sent }) => method === 'chat.postMessage' && JSON.stringify(sent.blocks).includes(id),
  );
  const open = slack.messages.filter(
    (message) => buttonsOf(message).length > 0 && JSON.stringify(message.blocks).includes(id),
  );
  const faults = [];
  if (body === 'risk' && posts.length > 0) faults.push(`Slack has a message about ${title}`);
  // Each kill cuts one attempt of this notice at most.
  if (posts.length > 1 + kills || open.length > kills)
    faults.push(`of ${posts.length} messages about ${title}, ${open.length} have buttons`);
  return faults;
}

/**
 * Returns the evidence of a failed round.
 *
 * @param {string | number} seed
 * @param {ChannelsWorld} world
 * @param {unknown} error
 */
function story(seed, world, error) {
  const words = error instanceof Error ? (error.stack ?? error.message) : String(error);
  const logs = world.servers.map(
    (server) => `--- log\n${server.log.split('\n').slice(-LOG_LINES).join('\n')}`,
  );
  return [`SEED=${seed} ROUNDS=1 fails:`, words, world.trace, ...logs].join('\n');
}
