// @ts-check
// What a strict OpenAI-compatible provider answers 400 to, gathered from the error messages of several of
// them. Knows nothing of Fermata: a request is judged by its body alone.

const FUNCTION_NAME = /^[A-Za-z0-9_-]{1,64}$/;
const CALL_ID_LENGTH = 40;
const MESSAGE_KEYS = {
  system: ['role', 'content', 'name'],
  developer: ['role', 'content', 'name'],
  user: ['role', 'content', 'name'],
  assistant: ['role', 'content', 'name', 'tool_calls'],
  tool: ['role', 'content', 'tool_call_id'],
};

/**
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
export const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * The faults of a request body, as sentences; none for a body that every provider takes.
 *
 * @param {unknown} body
 * @param {string[]} [known] fields of an assistant's message that this provider takes besides
 * @returns {string[]}
 */
export function faultsOf(body, known = []) {
  if (!isObject(body)) return ['the body is no JSON object'];
  const faults = [];
  if (typeof body.model !== 'string' || body.model === '') faults.push('model is missing');
  if (body.stream !== true) faults.push('stream is not true');
  if (body.tool_choice !== undefined && body.tools === undefined) faults.push('tool_choice without tools');
  faults.push(...faultsOfTools(body.tools), ...faultsOfHistory(body.messages, known));
  return faults;
}

/**
 * @param {unknown} tools
 * @returns {string[]}
 */
function faultsOfTools(tools) {
  if (tools === undefined) return [];
  if (!Array.isArray(tools) || tools.length === 0) return ['tools is not a list with something in it'];
  const faults = [];
  const names = new Set();
  for (const tool of tools) {
    const described =
      isObject(tool) && tool.type === 'function' && isObject(tool.function) ? tool.function : {};
    const name = String(described.name ?? '');
    if (!FUNCTION_NAME.test(name)) faults.push(`a tool cannot be called ${JSON.stringify(name)}`);
    if (names.has(name)) faults.push(`two tools are called ${name}`);
    names.add(name);
    const schema = described.parameters;
    if (!isObject(schema) || schema.type !== 'object')
      faults.push(`the schema of ${name} is not that of an object`);
    else if (schema.properties !== undefined && !isObject(schema.properties))
      faults.push(`${name}: bad properties`);
  }
  return faults;
}

/**
 * @param {unknown} messages
 * @param {string[]} known
 * @returns {string[]}
 */
function faultsOfHistory(messages, known) {
  if (!Array.isArray(messages) || messages.length === 0) return ['messages is empty'];
  /** @type {string[]} */
  const faults = [];
  const everSeen = new Set();
  /** @type {Set<string>} calls of the assistant message just before, that have no result yet */
  let unanswered = new Set();
  for (const [index, message] of messages.entries()) {
    const where = `message ${index}`;
    if (!isObject(message) || !isRole(message.role)) {
      faults.push(`${where} has no role that is known`);
      continue;
    }
    const keys = [...MESSAGE_KEYS[message.role], ...(message.role === 'assistant' ? known : [])];
    const strangers = Object.keys(message).filter((key) => !keys.includes(key));
    if (strangers.length > 0)
      faults.push(`${where} (${message.role}) has unknown fields: ${strangers.join(', ')}`);
    if (message.role === 'tool') {
      if (!unanswered.delete(String(message.tool_call_id))) {
        faults.push(`${where} is a result of ${JSON.stringify(message.tool_call_id)}, which is no open call`);
      }
      if (typeof message.content !== 'string' || message.content === '')
        faults.push(`${where} is an empty result`);
      continue;
    }
    faults.push(...[...unanswered].map((id) => `call ${id} has no result before ${where}`));
    unanswered = new Set();
    const calls = message.role === 'assistant' ? message.tool_calls : undefined;
    if (calls === undefined) {
      if (!hasContent(message.content)) faults.push(`${where} (${message.role}) is empty`);
      continue;
    }
    if (!Array.isArray(calls) || calls.length === 0) faults.push(`${where} has an empty list of calls`);
    for (const call of Array.isArray(calls) ? calls : []) {
      faults.push(...faultsOfCall(call).map((fault) => `${where}: ${fault}`));
      const id = isObject(call) ? String(call.id) : '';
      if (everSeen.has(id)) faults.push(`${where} uses the call id ${id} again`);
      everSeen.add(id);
      unanswered.add(id);
    }
  }
  faults.push(...[...unanswered].map((id) => `call ${id} has no result at all`));
  return faults;
}

/** @typedef {keyof typeof MESSAGE_KEYS} Role */

/**
 * @param {unknown} role
 * @returns {role is Role}
 */
const isRole = (role) => typeof role === 'string' && Object.hasOwn(MESSAGE_KEYS, role);

/**
 * @param {unknown} call
 * @returns {string[]}
 */
function faultsOfCall(call) {
  if (!isObject(call) || call.type !== 'function' || !isObject(call.function))
    return ['a call is not of type function'];
  const faults = [];
  const { id } = call;
  if (typeof id !== 'string' || id === '' || id.length > CALL_ID_LENGTH)
    faults.push(`call id ${JSON.stringify(id)}`);
  if (!FUNCTION_NAME.test(String(call.function.name)))
    faults.push(`call of ${JSON.stringify(call.function.name)}`);
  try {
    const input = JSON.parse(String(call.function.arguments));
    if (!isObject(input))
      faults.push(`arguments of ${call.function.name} are no object: ${call.function.arguments}`);
  } catch {
    faults.push(`arguments of ${call.function.name} are no JSON: ${JSON.stringify(call.function.arguments)}`);
  }
  return faults;
}

/** @param {unknown} content */
function hasContent(content) {
  if (typeof content === 'string') return content !== '';
  return (
    Array.isArray(content) &&
    content.length > 0 &&
    content.every((part) => isObject(part) && part.text !== '')
  );
}
