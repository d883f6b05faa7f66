// @ts-check
// What a client answers to what it is asked, and which of it was acknowledged.

/** @typedef {import('../harness/random.mjs').Random} Random */
/** @typedef {import('./view.mjs').Need} Need */
/** @typedef {import('../harness/page.mjs').Message} Message */
/** @typedef {import('../harness/page.mjs').Part} Part */

/**
 * @typedef {object} Answer
 * @property {Need} need
 * @property {number} turn when it was given
 * @property {'side' | 'repost' | 'leave'} by the way that it takes, if any
 * @property {Record<string, unknown>} body for `/chat/tool-result`
 * @property {boolean} acknowledged
 */

/**
 * Decides about a need; the same need always gets the same answer.
 *
 * @param {Random} random of the client
 * @param {Need} need
 * @param {number} turn
 * @returns {Answer}
 */
export function decide(random, need, turn) {
  const decisions = random.fork('answer', need.kind, need.key);
  const by = decisions.next();
  const channel = by < 0.6 ? 'side' : by < 0.9 ? 'repost' : 'leave';
  const common = { need, turn, acknowledged: false };
  switch (need.kind) {
    case 'elicitation':
      return {
        ...common,
        by: 'side',
        body: { elicitationId: need.id, action: 'accept', content: { color: 'red' } },
      };
    case 'output': {
      const failed = decisions.chance(0.15);
      const said = `the page says ${need.key}`;
      return {
        ...common,
        by: channel,
        body: { toolCallId: need.call, ...(failed ? { errorText: said } : { output: { said } }) },
      };
    }
    case 'approval': {
      const approved = decisions.chance(0.7);
      const named = decisions.chance(0.5) ? { approvalId: need.id } : { toolCallId: need.call };
      const body = { ...named, approved, reason: `because of ${need.key}` };
      const edits = approved && need.tool === 'write_note' && decisions.chance(0.3);
      const always = approved && !edits && decisions.chance(0.15);
      // A posted message has no word for these.
      if (edits)
        return { ...common, by: 'side', body: { ...body, input: { title: need.key, body: 'edited' } } };
      return { ...common, by: always ? 'side' : channel, body: always ? { ...body, always } : body };
    }
  }
}

/**
 * The message as a client shows it that has been given these answers.
 *
 * @param {Message} message
 * @param {Answer[]} answers
 * @returns {Message}
 */
export function answered(message, answers) {
  const parts = message.parts.map((part) => {
    const answer = answers.find(({ need }) => need.call === part.toolCallId);
    return answer === undefined ? part : answeredPart(part, answer);
  });
  return { ...message, parts };
}

/**
 * @param {Part} part
 * @param {Answer} answer
 * @returns {Part}
 */
function answeredPart(part, { need, body }) {
  if (need.kind === 'approval') {
    const approval = { id: need.id, approved: body.approved === true, reason: String(body.reason) };
    return { ...part, state: 'approval-responded', approval };
  }
  if (body.errorText !== undefined)
    return { ...part, state: 'output-error', errorText: String(body.errorText) };
  return { ...part, state: 'output-available', output: body.output };
}

/**
 * Returns `true` if a client would post the message by itself: all calls of its last step have their outcome or are
 * decided.
 *
 * @param {Message} message
 */
export function isComplete({ parts }) {
  const step = parts.slice(parts.findLastIndex(({ type }) => type === 'step-start') + 1);
  const calls = step.filter(({ toolCallId }) => toolCallId !== undefined);
  return calls.every(
    ({ state, preliminary }) => /^(output|approval-responded)/.test(state ?? '') && preliminary !== true,
  );
}
