// @ts-check
// Approvals through channels. The other sides come from npm: a mail server and a mail program, the library of Standard Webhooks, and the
// decryption of Web Push. A stand-in for Slack has the limits of Slack.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { newestOf } from '../harness/clients.mjs';
import { change, rows } from '../harness/database.mjs';
import { calls, says } from '../harness/fake-openai.mjs';
import { MailServer, linksOf } from '../harness/mail-server.mjs';
import { PushService } from '../harness/push-service.mjs';
import { playOut } from '../harness/scenario.mjs';
import { NO_SERVICES, Postgres } from '../harness/services.mjs';
import { SignedService, newSecret } from '../harness/signed-service.mjs';
import { SlackApi, buttonsOf } from '../harness/slack-api.mjs';
import { until } from '../harness/until.mjs';

/** @typedef {import('../harness/scenario.mjs').World} World */
/** @typedef {import('../harness/events.mjs').EventStream} EventStream */
/** @typedef {import('../harness/mail-server.mjs').Mail} Mail */

/** The URL that links begin with. A test follows them to the server itself. */
const PUBLIC_URL = 'https://chat.example.com';
/** A failed event is sent again after five seconds, and a request takes ten at most. */
const PATIENCE = 60_000;
/** Five minutes is the oldest that a signed request may be. */
const TOO_OLD = () => new Date(Date.now() - 301_000);

const note = { name: 'write_note', input: { title: 'shopping', body: 'milk' } };

/** @param {string} name */
const as = (name) => ({ authorization: `Bearer token-of-${name}-0123456789` });

/**
 * Alice, Bob and Carol are in the group `finance`. Dave is the requester.
 *
 * @param {string} rule lines of the rule
 * @param {string} channels their tables
 */
const settings = (rule, channels) => `
auth = "token"
public_url = "${PUBLIC_URL}"
${['alice', 'bob', 'carol', 'dave']
  .map(
    (name) => `[users.${name}]
token = "token-of-${name}-0123456789"
email = "${name}@example.com"
groups = [${name === 'dave' ? '' : '"finance"'}]`,
  )
  .join('\n')}
[[policy]]
tool = "write_note"
decision = "ask"
${rule}
${channels}
`;

/**
 * Declares a test with a service at the other side of a channel.
 *
 * @template {{ stop: () => Promise<void> }} Peer
 * @param {string} name the fact that it shows
 * @param {() => Promise<Peer>} starts the other side
 * @param {(peer: Peer) => { config: string, settings?: Record<string, string> }} options
 * @param {(world: World, peer: Peer) => Promise<void>} body
 * @param {{ skip?: string }} [more]
 */
function channel(name, starts, options, body, more = {}) {
  test(name, { timeout: 120_000, ...more }, async (context) => {
    const peer = await starts();
    try {
      await playOut(newestOf(7), options(peer), (world) => body(world, peer), context);
    } finally {
      await peer.stop();
    }
  });
}

/** Dave asks for a note. @param {World} world @param {object} [call] */
async function asks(world, call = note) {
  world.model.script(calls({ ...note, ...call }), says('Well.'));
  const stream = await world.post('note it', {}, as('dave'));
  const { approvalId } = await stream.sees('tool-approval-request');
  return { stream, id: String(approvalId) };
}

/** @param {World} world @param {string} name @param {string} id */
async function approval(world, name, id) {
  const response = await world.request('GET', `/api/approvals/${id}`, undefined, as(name));
  return /** @type {Record<string, any>} */ (await response.json());
}

/** @param {World} world @param {string} name @param {string} id @param {object} vote */
async function votes(world, name, id, vote) {
  const response = await world.request('POST', `/api/approvals/${id}`, vote, as(name));
  return { status: response.status, body: /** @type {Record<string, any>} */ (await response.json()) };
}

/** The call ran, and the answer went on. @param {EventStream} stream */
async function ran(stream) {
  await stream.toEnd();
  assert.ok(stream.done);
  assert.ok(
    stream.chunks.some(({ type }) => type === 'tool-output-available'),
    stream.outline,
  );
  assert.ok(stream.chunks.some(({ type, delta }) => type === 'text-delta' && delta === 'Well.'));
}

// === e-mail ===

/** @param {MailServer} mail @param {string} [more] lines of the rule */
const byMail = (mail, more = '') => ({
  config: settings(
    `by = ["group:finance"]\nnotify = ["mail"]\n${more}`,
    `[channels.mail]
kind = "email"
private = true
smtp = "${mail.url}"
from = "Fermata <fermata@example.com>"
links = true`,
  ),
  ...(mail.certificate !== undefined && { settings: { SSL_CERT_FILE: mail.certificate } }),
});

/**
 * Opens a link as a browser does, or sends the form behind it.
 *
 * @param {World} world
 * @param {string} link
 * @param {'GET' | 'POST' | 'HEAD'} [method]
 */
async function opens(world, link, method = 'GET') {
  assert.ok(link.startsWith(`${PUBLIC_URL}/channels/mail/l/`), link);
  const response = await world.request(method, link.slice(PUBLIC_URL.length));
  assert.match(response.headers.get('content-type') ?? '', /^text\/html/);
  return { status: response.status, html: await response.text() };
}

/** @param {MailServer} mail @param {string} name @param {number} [count] */
async function mailTo(mail, name, count = 1) {
  await until(
    () => mail.to(`${name}@example.com`).length >= count,
    () => `mail ${count} for ${name} in ${JSON.stringify(mail.mails)}`,
  );
  return /** @type {Mail} */ (mail.to(`${name}@example.com`)[count - 1]);
}

channel(
  'links in mails decide as their recipients, once, and only with the form behind them',
  () => MailServer.start(),
  (mail) => byMail(mail, 'quorum = 2'),
  async (world, mail) => {
    const { stream, id } = await asks(world);
    const [alice, bob, carol] = [
      await mailTo(mail, 'alice'),
      await mailTo(mail, 'bob'),
      await mailTo(mail, 'carol'),
    ];
    const all = [alice, bob, carol].map(linksOf);
    assert.equal(new Set(all.flatMap(({ approve, deny }) => [approve, deny])).size, 6);
    assert.equal(new Set([alice, bob, carol].map((mail) => mail.id)).size, 3);
    assert.match(alice.subject, /^Approval needed: /);
    for (const link of Object.values(linksOf(alice))) assert.ok(alice.html.includes(link));
    const [first, second, third] = all;
    assert.ok(first && second && third);

    for (const method of /** @type {const} */ (['HEAD', 'GET', 'GET'])) {
      const page = await opens(world, first.approve, method);
      assert.equal(page.status, 200);
      if (method === 'GET') assert.match(page.html, /<form method="post"><button type="submit">Approve</);
    }
    assert.match((await opens(world, first.deny)).html, /<button type="submit">Deny</);
    assert.deepEqual((await approval(world, 'alice', id)).decision.approvedBy, []);

    const used = await opens(world, first.approve, 'POST');
    assert.deepEqual([used.status, /Your vote was counted/.test(used.html)], [200, true]);
    const again = await opens(world, first.approve, 'POST');
    assert.deepEqual([again.status, /used before/.test(again.html)], [410, true]);
    const waiting = await approval(world, 'bob', id);
    assert.deepEqual([waiting.state, waiting.decision.approvedBy], ['waiting', ['alice']]);

    const settles = await opens(world, second.approve, 'POST');
    assert.deepEqual([settles.status, /Approved by alice and bob/.test(settles.html)], [200, true]);
    await ran(stream);
    for (const link of [third.approve, third.deny, second.approve, first.deny])
      for (const method of /** @type {const} */ (['GET', 'POST'])) {
        const late = await opens(world, link, method);
        assert.deepEqual([late.status, /Approved by alice and bob/.test(late.html)], [409, true]);
      }
    assert.equal((await opens(world, `${first.approve}x`, 'POST')).status, 404);
    assert.deepEqual((await approval(world, 'carol', id)).settled.channel, 'email');

    for (const [name, before] of /** @type {const} */ ([
      ['alice', alice],
      ['bob', bob],
      ['carol', carol],
    ])) {
      const outcome = await mailTo(mail, name, 2);
      assert.equal(outcome.inReplyTo, before.id);
      assert.match(outcome.subject, /^Approved by alice and bob: /);
    }
    assert.deepEqual(mail.to('dave@example.com'), []);
    const kept = JSON.stringify(await rows(world, 'select * from mail_links'));
    for (const link of all.flatMap((links) => Object.values(links)))
      assert.ok(!kept.includes(link.split('/').at(-1) ?? ''), 'a token is in the database');
  },
);

channel(
  'a link whose vote ended with the server works again',
  async () => {
    const [mail, database] = [await MailServer.start(), await Postgres.create()];
    return { mail, database, stop: async () => void (await Promise.all([mail.stop(), database.drop()])) };
  },
  ({ mail, database }) => {
    const options = byMail(mail);
    return { ...options, settings: { DATABASE_URL: database.url } };
  },
  async (world, { mail, database }) => {
    const { id } = await asks(world);
    const { approve } = linksOf(await mailTo(mail, 'alice'));
    const isBlocked = async () => {
      const [row] = await database.rows(
        "select count(*)::int as blocked from pg_locks where relation = 'audit_events'::regclass and not granted",
      );
      return row?.blocked === 1;
    };
    // The vote cannot be committed.
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query('begin; lock table audit_events in share mode');
    const cut = assert.rejects(opens(world, approve, 'POST'));
    await until(isBlocked, 'the vote to wait for the lock');
    await world.server.kill();
    await cut;
    await client.end();
    await world.server.start();
    assert.equal((await approval(world, 'alice', id)).state, 'waiting');
    const again = await opens(world, approve, 'POST');
    assert.deepEqual([again.status, /Approved by alice/.test(again.html)], [200, true]);
    await until(() => world.model.requests[1]?.done, 'the run to go on');
  },
  NO_SERVICES ? { skip: NO_SERVICES } : {},
);

channel(
  'a link denies, over a mail server with TLS',
  () => MailServer.start({ tls: true }),
  byMail,
  async (world, mail) => {
    const { stream } = await asks(world);
    const denies = await opens(world, linksOf(await mailTo(mail, 'bob')).deny, 'POST');
    assert.deepEqual([denies.status, /Denied by bob/.test(denies.html)], [200, true]);
    await stream.toEnd();
    assert.ok(stream.chunks.some(({ type }) => type === 'tool-output-denied'));
    assert.match((await mailTo(mail, 'alice', 2)).subject, /^Denied by bob: /);
    assert.equal(mail.refused, 0);
  },
);

channel(
  'a link of a mail does not approve an input that was edited later',
  () => MailServer.start(),
  (mail) => byMail(mail, 'quorum = 2'),
  async (world, mail) => {
    const { stream, id } = await asks(world);
    const old = linksOf(await mailTo(mail, 'carol'));
    await votes(world, 'alice', id, { approved: true, input: { title: 'shopping', body: 'oat milk' } });
    const late = await opens(world, old.approve, 'POST');
    assert.deepEqual([late.status, /has changed/.test(late.html)], [409, true]);
    assert.deepEqual((await approval(world, 'carol', id)).decision.approvedBy, ['alice']);
    const mailed = await mailTo(mail, 'carol', 2);
    assert.match(mailed.text, /oat milk/);
    assert.equal((await opens(world, linksOf(mailed).approve, 'POST')).status, 200);
    await ran(stream);
  },
);

channel(
  'a mail whose sending was not noted is followed by its outcome',
  () => MailServer.start(),
  byMail,
  async (world, mail) => {
    mail.answers = () => 'taken unanswered';
    const { id } = await asks(world);
    const before = await mailTo(mail, 'carol');
    await world.server.kill();
    mail.answers = () => 'taken';
    await world.server.start();
    assert.equal((await votes(world, 'alice', id, { approved: true })).status, 200);
    await world.server.kill();
    // The claim of the first process ends after half a minute.
    await change(world, 'update outbox set next_at = 0');
    await world.server.start();
    await until(
      async () => (await rows(world, 'select * from outbox')).length === 0,
      'the outbox to be empty',
    );
    const [, outcome] = mail.to('carol@example.com');
    assert.equal(outcome?.inReplyTo, before.id);
    assert.match(outcome?.subject ?? '', /^Approved by alice: /);
  },
);

// === webhook ===

channel(
  'a webhook whose endpoint fails and hangs gets each event with the same id, those of an approval in order',
  () => SignedService.start(),
  (ops) => ({
    config: settings(
      'by = ["group:finance"]',
      `[channels.ops]
kind = "webhook"
private = true
url = "${ops.url}/hooks"
secret = ["${newSecret()}", "${ops.secret}"]
events = ["approval.*", "run.*"]`,
    ),
  }),
  async (world, ops) => {
    /** @type {Set<string>} */
    const tried = new Set();
    ops.answers = ({ id, event: { type } }) => {
      const isFirst = !tried.has(id);
      tried.add(id);
      if (isFirst && type === 'approval.requested') return { status: 500 };
      return isFirst && type === 'approval.settled' ? 'hangs' : { status: 200 };
    };
    const { stream, id } = await asks(world);
    await until(() => ops.deliveries.length > 0, 'the first delivery');
    assert.equal((await votes(world, 'alice', id, { approved: true })).body.state, 'approved');
    await ran(stream);
    await until(
      async () => (await world.server.command('outbox')).output.startsWith('the outbox is empty'),
      'all',
      PATIENCE,
    );

    assert.deepEqual(ops.faults, []);
    const ofApproval = ops.events.filter(({ event }) => event.type.startsWith('approval.'));
    assert.deepEqual(
      ofApproval.map(({ event: { type, data } }) => [type, data.id, data.state]),
      [
        ['approval.requested', id, 'waiting'],
        ['approval.settled', id, 'approved'],
      ],
    );
    assert.equal(ops.deliveries.filter(({ event }) => event.type.startsWith('approval.')).length, 4);
    const [requested, settled] = ofApproval;
    assert.deepEqual(requested?.event.data.input, note.input);
    assert.deepEqual([settled?.event.data.settled.by, settled?.event.data.settled.channel], ['alice', 'api']);
    assert.ok(requested && !('mayDecide' in requested.event.data.decision || 'chat' in requested.event.data));
    const finished = ops.events.filter(({ event }) => event.type === 'run.finished');
    assert.deepEqual(
      finished.map(({ event: { data } }) => [data.chatId, data.owner, data.finishReason]),
      [[world.id, 'dave', 'stop']],
    );
  },
);

// === decider ===

/** @param {SignedService} risk @param {string} [more] */
const byDecider = (risk, more = '"channel:risk"') => ({
  config: settings(
    `by = [${more}]`,
    `[channels.risk]
kind = "decider"
private = true
url = "${risk.url}/decide"
secret = "${risk.secret}"`,
  ),
});

channel(
  'a decider decides with its answer',
  () => SignedService.start(),
  byDecider,
  async (world, risk) => {
    risk.answers = () => ({ status: 200, body: JSON.stringify({ approved: true, reason: 'A low score.' }) });
    const { stream, id } = await asks(world);
    await ran(stream);
    assert.deepEqual(risk.faults, []);
    assert.deepEqual(
      risk.deliveries.map(({ event: { type, data } }) => [type, data.id]),
      [['approval.requested', id]],
    );
    const { state, settled } = await approval(world, 'dave', id);
    assert.deepEqual([state, settled.by, settled.channel], ['approved', 'channel:risk', 'decider']);
  },
);

channel(
  'a decider answers later, with a signed request about the input that it has seen',
  () => SignedService.start(),
  byDecider,
  async (world, risk) => {
    risk.answers = () => ({ status: 202 });
    const { stream, id } = await asks(world);
    await until(() => risk.deliveries.length === 1, 'the question');
    const { inputHash } = /** @type {Record<string, any>} */ (risk.deliveries[0]?.event.data);
    const url = `${world.server.url}/channels/risk`;
    const verdict = { approvalId: id, approved: false, inputHash, reason: 'Too many notes today.' };
    for (const options of [{ secret: newSecret() }, { at: TOO_OLD() }]) {
      const refused = await risk.posts(url, { ...verdict, approved: true }, options);
      assert.deepEqual([refused.status, refused.body.code], [401, 'unauthorized']);
    }
    const unsigned = await world.request('POST', '/channels/risk', { ...verdict, approved: true });
    assert.equal(unsigned.status, 401);
    const other = await risk.posts(url, { ...verdict, inputHash: 'x'.repeat(64), approved: true });
    assert.deepEqual([other.status, other.body.code], [409, 'changed']);
    assert.equal((await approval(world, 'dave', id)).state, 'waiting');

    const taken = await risk.posts(url, verdict);
    assert.deepEqual([taken.status, taken.body.state], [200, 'denied']);
    await stream.toEnd();
    assert.ok(stream.chunks.some(({ type }) => type === 'tool-output-denied'));
    assert.match(JSON.stringify(world.model.request(2).results), /Too many notes today/);
    const late = await risk.posts(url, { ...verdict, approved: true });
    assert.deepEqual([late.status, late.body.code], [409, 'already_answered']);
  },
);

channel(
  'a decider that fails has no vote, and people beside it decide',
  () => SignedService.start(),
  (risk) => byDecider(risk, '"channel:risk", "group:finance"'),
  async (world, risk) => {
    risk.answers = () => ({ status: 500, body: JSON.stringify({ approved: false }) });
    const { stream, id } = await asks(world);
    await until(() => risk.deliveries.length === 1, 'the question');
    assert.equal((await votes(world, 'bob', id, { approved: true })).body.state, 'approved');
    await ran(stream);
    assert.equal((await approval(world, 'dave', id)).settled.by, 'bob');
  },
);

// === Web Push ===

channel(
  'browsers of those who may decide are notified, and their notifications close',
  () => PushService.start(),
  () => ({
    config: settings(
      'by = ["group:finance"]\nnotify = ["phone"]',
      '[channels.phone]\nkind = "web_push"\nprivate = true',
    ),
  }),
  async (world, push) => {
    const key = await world.request('GET', '/api/push', undefined, as('alice'));
    push.publicKey = /** @type {{ publicKey: string }} */ (await key.json()).publicKey;
    const [desk, phone, old, foreign] = [
      push.subscribe(),
      push.subscribe(),
      push.subscribe(),
      push.subscribe(),
    ];
    for (const [name, { subscription }] of /** @type {const} */ ([
      ['alice', desk],
      ['alice', phone],
      ['bob', old],
      ['dave', foreign],
    ])) {
      const response = await world.request('POST', '/api/push', { subscription }, as(name));
      assert.equal(response.status, 204, await response.text());
    }
    old.status = 410;

    const { stream, id } = await asks(world);
    const both = () => [desk, phone].every(({ messages }) => messages.length === 1);
    await until(both, () => `a notification for each of ${JSON.stringify([desk, phone])}; ${push.faults}`);
    const [shown] = desk.messages;
    assert.deepEqual(shown, phone.messages[0]);
    assert.deepEqual(
      [shown?.type, shown?.id, shown?.url],
      ['approval.requested', id, `${PUBLIC_URL}/inbox?approval=${id}`],
    );
    const taken = await votes(world, 'alice', id, { approved: true, inputHash: shown?.inputHash });
    assert.equal(taken.body.state, 'approved');
    await ran(stream);
    const closed = () => [desk, phone].every(({ messages }) => messages.length === 2);
    await until(closed, () => `the end of both notifications; ${push.faults}`);
    for (const { messages } of [desk, phone])
      assert.deepEqual([messages[1]?.type, messages[1]?.id], ['approval.settled', id]);
    assert.deepEqual([foreign.messages, push.faults], [[], []]);

    const gone = { endpoint: old.endpoint };
    assert.equal((await world.request('DELETE', '/api/push', gone, as('bob'))).status, 404);
  },
);

// === Slack ===

/** @param {SlackApi} slack @param {string} [more] lines of the rule */
const bySlack = (slack, more = '') => ({
  config: settings(
    `by = ["group:finance"]\nnotify = ["finance"]\n${more}`,
    `[channels.finance]\n${slack.settings({ U111: 'alice', U222: 'bob', U444: 'dave' })}`,
  ),
});

/** The only message. @param {SlackApi} slack */
async function message(slack) {
  await until(
    () => slack.messages.length > 0,
    () => `a message; ${slack.faults}`,
  );
  return /** @type {import('../harness/slack-api.mjs').Message} */ (slack.messages[0]);
}

channel(
  'a click in Slack decides, and the message becomes the outcome',
  () => SlackApi.start(),
  bySlack,
  async (world, slack) => {
    const body = `<!channel> \`\`\` & <https://evil.example|click> ${'€&<>'.repeat(2000)}`;
    const { stream, id } = await asks(world, { input: { title: 'shopping', body } });
    const posted = await message(slack);
    assert.doesNotMatch(JSON.stringify(posted.blocks), /<!channel>|<https:\/\/evil/);
    assert.deepEqual(
      buttonsOf(posted).map(({ text }) => typeof text === 'object' && text.text),
      ['Approve', 'Deny'],
    );
    const [approve, deny] = [slack.button(posted, 'Approve'), slack.button(posted, 'Deny')];
    const url = `${world.server.url}/channels/finance`;
    const click = { user: 'U111', button: approve, message: posted };
    for (const options of [{ secret: 'another' }, { at: TOO_OLD() }])
      assert.equal((await slack.clicks(url, click, options)).status, 401);
    const unsigned = await world.request('POST', '/channels/finance', { payload: '{}' });
    assert.equal(unsigned.status, 401);
    for (const user of ['U999', 'U444']) {
      assert.equal((await slack.clicks(url, { ...click, user })).status, 200);
      await until(() => slack.whispers.some((whisper) => whisper.user === user), `an answer to ${user}`);
    }
    assert.equal((await approval(world, 'alice', id)).state, 'waiting');

    assert.equal((await slack.clicks(url, click)).status, 200);
    await ran(stream);
    const { state, settled } = await approval(world, 'alice', id);
    assert.deepEqual([state, settled.by, settled.channel], ['approved', 'alice', 'slack']);
    await until(
      () => buttonsOf(posted).length === 0,
      () => `the outcome in ${JSON.stringify(posted)}; ${slack.faults}`,
    );
    assert.match(JSON.stringify(posted.blocks), /Approved by alice/);
    assert.deepEqual(
      slack.calls.map(({ method }) => method),
      ['chat.postMessage', 'chat.update'],
    );
    assert.equal((await slack.clicks(url, { user: 'U222', button: deny, message: posted })).status, 200);
    await until(() => slack.whispers.some(({ user }) => user === 'U222'), 'an answer to the late click');
    assert.match(slack.whispers.find(({ user }) => user === 'U222')?.text ?? '', /Approved by alice/);
    assert.deepEqual(slack.faults, []);
  },
);

channel(
  'a click in Slack is one vote of several, and an edit changes the message',
  () => SlackApi.start(),
  (slack) => bySlack(slack, 'quorum = 2'),
  async (world, slack) => {
    const { stream, id } = await asks(world);
    const posted = await message(slack);
    const url = `${world.server.url}/channels/finance`;
    const before = { user: 'U111', button: slack.button(posted, 'Approve'), message: posted };
    await slack.clicks(url, before);
    await until(() => slack.whispers.length === 1, 'an answer to the first vote');
    assert.match(slack.whispers[0]?.text ?? '', /^Your vote was counted/);

    await votes(world, 'carol', id, { approved: true, input: { title: 'shopping', body: 'oat milk' } });
    await until(() => JSON.stringify(posted.blocks).includes('oat milk'), 'the new input');
    await slack.clicks(url, before);
    await until(() => slack.whispers.length === 2, 'an answer to the vote about the old input');
    assert.match(slack.whispers[1]?.text ?? '', /has changed/);
    assert.deepEqual((await approval(world, 'alice', id)).decision.approvedBy, ['carol']);

    await slack.clicks(url, { ...before, button: slack.button(posted, 'Approve') });
    await ran(stream);
    await until(() => buttonsOf(posted).length === 0, 'the outcome');
    assert.match(JSON.stringify(posted.blocks), /Approved by carol and alice|Approved by alice and carol/);
    assert.deepEqual([slack.messages.length, slack.faults], [1, []]);
  },
);

// === private addresses ===

channel(
  'a channel without `private = true` connects to no address of this machine',
  () => SignedService.start(),
  (ops) => ({
    config: settings(
      'by = ["group:finance"]',
      `[channels.ops]
kind = "webhook"
url = "${ops.url}/hooks"
secret = "${ops.secret}"
events = ["approval.*"]`,
    ),
  }),
  async (world, ops) => {
    const { stream, id } = await asks(world);
    const isGivenUp = async () =>
      /given up .*not a host of the public Internet/.test((await world.server.command('outbox')).output);
    await until(isGivenUp, 'a refusal');
    assert.deepEqual([ops.deliveries, ops.faults], [[], []]);
    // The chat does not wait for the channel.
    await votes(world, 'alice', id, { approved: true });
    await ran(stream);
  },
);
