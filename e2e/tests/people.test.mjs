// @ts-check
// Who decides, with two instances on one database: a vote at either counts once, everybody concerned sees it at both, and what is settled
// stays settled over kills.

import assert from 'node:assert/strict';
import { clustered } from '../harness/cluster.mjs';
import { EventStream } from '../harness/events.mjs';
import { calls, says } from '../harness/fake-openai.mjs';
import { until } from '../harness/until.mjs';

/** @typedef {import('../harness/cluster.mjs').Cluster} Cluster */
/** @typedef {{ id: string, state: string, inputHash: string, settled: { by: string } | null, decision: { approvedBy: string[], mayDecide: boolean } }} Approval */

const note = { name: 'write_note', input: { title: 'shopping', body: 'milk' } };

/** @param {string} name */
const as = (name) => ({ authorization: `Bearer token-of-${name}-0123456789` });

/** @param {string} rule */
const settings = (rule) => `
auth = "token"
${['alice', 'bob', 'carol', 'dave']
  .map(
    (name) =>
      `[users.${name}]\ntoken = "token-of-${name}-0123456789"\ngroups = [${name === 'dave' ? '' : '"finance"'}]`,
  )
  .join('\n')}
[[policy]]
tool = "write_note"
decision = "ask"
${rule}
`;

/** @param {string} rule */
const company = (rule) => ({ settings: {}, config: () => settings(rule) });

/**
 * Dave's chat asks for a note at the first instance.
 *
 * @param {Cluster} cluster
 */
async function asks(cluster) {
  const stream = await EventStream.open(`${cluster.servers[0]?.url}/api/chat`, {
    headers: as('dave'),
    body: { id: 'chat-1', message: { id: 'u1', role: 'user', content: 'note it' } },
  });
  cluster.streams.push(stream);
  const { approvalId } = await stream.sees('tool-approval-request');
  return { stream, id: String(approvalId) };
}

/**
 * @param {Cluster} cluster
 * @param {number} place
 * @param {string} name
 * @param {string} path
 * @param {unknown} [body]
 */
async function request(cluster, place, name, path, body) {
  const response = await fetch(`${cluster.servers[place - 1]?.url}${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { ...as(name), 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: /** @type {any} */ (await response.json()) };
}

/** @param {Cluster} cluster @param {number} place @param {string} name @param {string} id @param {object} [more] */
const vote = (cluster, place, name, id, more = {}) =>
  request(cluster, place, name, `/api/approvals/${id}`, { approved: true, ...more });

/** @param {Cluster} cluster @param {number} place @param {string} name */
async function follows(cluster, place, name) {
  const stream = await EventStream.open(`${cluster.servers[place - 1]?.url}/api/approvals/events`, {
    headers: as(name),
  });
  cluster.streams.push(stream);
  return {
    /** @param {(approval: Approval) => boolean} fits */
    sees: (fits) =>
      until(
        () => stream.chunks.map((chunk) => /** @type {Approval} */ (chunk.approval)).find(fits),
        () => `an approval in ${JSON.stringify(stream.chunks)}`,
      ),
  };
}

clustered(
  'votes at both instances make a quorum, and each of those concerned sees it where they are',
  company('by = ["group:finance"]\nquorum = 2'),
  async (cluster) => {
    cluster.model.script(calls(note), says('Noted.'));
    const [here, there] = [await follows(cluster, 1, 'dave'), await follows(cluster, 2, 'carol')];
    const { stream, id } = await asks(cluster);
    await there.sees((approval) => approval.id === id && approval.decision.mayDecide);

    const { body: listed } = await request(cluster, 2, 'alice', '/api/approvals?mine=true');
    assert.deepEqual(
      listed.approvals.map((/** @type {Approval} */ approval) => approval.id),
      [id],
    );
    const { inputHash } = listed.approvals[0];
    const wrong = await vote(cluster, 2, 'alice', id, { inputHash: inputHash.replace(/^./, 'x') });
    assert.deepEqual(
      [wrong.status, wrong.body.code, wrong.body.approval.inputHash],
      [409, 'changed', inputHash],
    );
    const first = await vote(cluster, 2, 'alice', id, { inputHash });
    assert.deepEqual([first.body.state, first.body.decision.approvedBy], ['waiting', ['alice']]);
    assert.equal((await vote(cluster, 1, 'alice', id)).body.state, 'waiting');
    assert.equal((await vote(cluster, 1, 'dave', id)).status, 403);
    assert.equal((await vote(cluster, 2, 'bob', id)).body.state, 'approved');

    await stream.toEnd();
    assert.ok(stream.chunks.some(({ type }) => type === 'tool-output-available'));
    const is = (/** @type {string} */ state) => (/** @type {Approval} */ approval) =>
      approval.id === id && approval.state === state;
    await Promise.all([here.sees(is('approved')), there.sees(is('approved'))]);
    const late = await vote(cluster, 1, 'carol', id, { approved: false });
    assert.deepEqual([late.status, late.body.approval.settled.by], [409, 'bob']);
  },
);

clustered(
  'of two who decide at the same moment at two instances, one settles and the other is told who',
  company('by = ["group:finance"]'),
  async (cluster) => {
    cluster.model.script(calls(note), says('Then not.'));
    const { stream, id } = await asks(cluster);
    const answers = await Promise.all([
      vote(cluster, 1, 'alice', id, { approved: false, reason: 'No.' }),
      vote(cluster, 2, 'bob', id, { approved: false, reason: 'No.' }),
    ]);
    await stream.toEnd();
    const [settled, late] = answers.toSorted((one, other) => one.status - other.status);
    assert.deepEqual([settled?.status, late?.status], [200, 409]);
    assert.equal(late?.body.approval.settled.by, settled?.body.settled.by);
  },
);

clustered(
  'votes outlive the instance that took them',
  company('by = ["group:finance"]\nquorum = 2'),
  async (cluster) => {
    cluster.model.script(calls(note), says('Noted.'));
    const { id } = await asks(cluster);
    await vote(cluster, 1, 'alice', id);
    await cluster.servers[0]?.kill();
    const seen = await request(cluster, 2, 'bob', `/api/approvals/${id}`);
    assert.deepEqual([seen.status, seen.body.decision.approvedBy], [200, ['alice']]);
    await until(async () => (await vote(cluster, 2, 'bob', id)).body.state === 'approved', 'the second vote');
    await until(async () => {
      const { body } = await request(cluster, 2, 'dave', '/api/chat/chat-1');
      return JSON.stringify(body.messages).includes('output-available');
    }, 'the note');
  },
);
