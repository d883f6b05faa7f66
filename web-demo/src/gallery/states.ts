// A message for every state that a card can show.

import type { UIMessage } from 'ai';
import type { CallStatus } from 'fermata-chat';
import type { ServerTool, ServerTools } from '../chat/record/toolState';

type Part = UIMessage['parts'][number];

export interface Shown {
  what: string;
  message: UIMessage;
}

const listed: ServerTool[] = [
  {
    name: 'write_note',
    description: 'Writes a note.',
    inputSchema: {
      type: 'object',
      properties: {
        title: { type: 'string', description: 'What the note is called.', maxLength: 60 },
        body: { type: 'string', description: 'What it says.' },
        pinned: { type: 'boolean' },
        priority: { type: ['integer', 'null'], minimum: 1, maximum: 5, description: 'From 1 to 5.' },
        colour: { enum: ['paper', 'mint', 'sky'], default: 'paper' },
        due: { type: 'string', format: 'date' },
        tags: { type: 'array', items: { type: 'string' } },
        reminder: {
          type: 'object',
          properties: { email: { type: 'string', format: 'email' }, minutes: { type: 'number' } },
          required: ['email'],
        },
      },
      required: ['title', 'body'],
      additionalProperties: false,
    },
    runBy: 'server',
    policy: 'ask',
    resource: 'notes',
  },
  {
    name: 'search_notes',
    description: '',
    inputSchema: { type: 'object' },
    runBy: 'server',
    policy: 'allow',
    resource: 'notes',
  },
  { name: 'files__read', description: '', inputSchema: { type: 'object' }, runBy: 'mcp', policy: 'allow' },
];

export const tools: ServerTools = { listed };

const note = {
  title: 'Buy milk',
  body: 'Two litres, and oats.\nNot the sweet ones.',
  priority: 2,
  tags: ['home', 'food'],
};
let made = 0;

const call = (name: string, state: string, more: object = {}): Part =>
  ({
    type: `tool-${name}`,
    toolCallId: `call_${String(++made)}`,
    state,
    input: {},
    ...more,
  }) as unknown as Part;
const mcp = (state: string, more: object = {}): Part =>
  ({
    type: 'dynamic-tool',
    toolName: 'files__read',
    toolCallId: `call_${String(++made)}`,
    state,
    input: { path: '/srv/files/report.csv' },
    ...more,
  }) as unknown as Part;

/** The server's statuses of the calls that wait. */
export const statuses = new Map<string, CallStatus>();

function waiting(part: Part, status: Omit<CallStatus, 'state'>): Part {
  if ('toolCallId' in part) statuses.set(part.toolCallId, { state: 'scheduled', ...status });
  return part;
}

const question = () => ({ approval: { id: `approval_${String(++made)}` } });

function shown(what: string, ...parts: Part[]): Shown {
  const calls = Object.fromEntries(
    parts.flatMap((part) =>
      'toolCallId' in part && part.state === 'output-available'
        ? [[part.toolCallId, { durationMs: 1432 }]]
        : [],
    ),
  );
  return {
    what,
    message: {
      id: `message_${String(++made)}`,
      role: 'assistant',
      parts: [{ type: 'step-start' }, ...parts],
      metadata: { calls },
    },
  };
}

const PIXELS =
  'iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAJElEQVQI12NkYPhfz4AHMDEw4JXGL8nCgE8apzQLAz5pnNIsAF0SBBG9oZ1kAAAAAElFTkSuQmCC';

/** Every state, in the order of a call's life. */
export const states: Shown[] = [
  shown('Preparing', call('write_note', 'input-streaming', { input: { title: 'Buy' } })),
  shown('Waiting for you', call('write_note', 'approval-requested', { input: note, ...question() })),
  shown(
    'The gate: one decided, two to go',
    waiting(call('search_notes', 'input-available', { input: { query: 'milk' } }), { waitsFor: 'gate' }),
    call('write_note', 'approval-requested', { input: note, ...question() }),
    mcp('approval-requested', question()),
    waiting(call('get_location', 'input-streaming'), { waitsFor: 'gate' }),
  ),
  shown(
    'One after the other',
    call('write_note', 'approval-responded', { input: note, approval: { id: 'a', approved: true } }),
    waiting(call('search_notes', 'input-available', { input: { query: 'milk' } }), {
      waitsFor: 'resource',
      resource: 'notes',
    }),
  ),
  shown(
    'Progress',
    mcp('output-available', {
      preliminary: true,
      output: { progress: 3, total: 10, message: 'Reading the third page' },
    }),
  ),
  shown('Progress without an end', mcp('output-available', { preliminary: true, output: { progress: 41 } })),
  shown(
    'Live output',
    call('search_notes', 'output-available', {
      preliminary: true,
      input: { query: 'milk' },
      output: 'Found so far: 2',
    }),
  ),
  shown(
    'Done',
    call('write_note', 'output-available', {
      input: note,
      output: { saved: true, id: 7, title: 'Buy milk' },
    }),
  ),
  shown(
    'Done, with a picture',
    mcp('output-available', {
      output: {
        content: [
          { type: 'text', text: 'The page as a picture.' },
          { type: 'image', data: PIXELS, mimeType: 'image/png' },
        ],
      },
    }),
  ),
  shown(
    'Failed',
    call('search_notes', 'output-error', {
      input: { query: 'milk' },
      errorText: 'The notes could not be read: the tool took longer than 60 s.',
    }),
  ),
  shown(
    'Denied',
    call('write_note', 'output-denied', {
      input: note,
      approval: { id: 'b', approved: false, reason: 'Not today' },
    }),
  ),
  shown('Nobody here has it', call('open_door', 'input-available')),
  shown('get_location at work', call('get_location', 'input-available')),
  shown(
    'get_location',
    call('get_location', 'output-available', {
      output: { latitude: 47.3769, longitude: 8.5417, accuracy: 24 },
    }),
  ),
  shown(
    'ask_question, free',
    call('ask_question', 'input-available', { input: { question: 'What shall the note be called?' } }),
  ),
  shown(
    'ask_question, a choice',
    call('ask_question', 'input-available', {
      input: { question: 'Which colour?', options: ['Paper', 'Mint', 'Sky over the lake in the morning'] },
    }),
  ),
  shown(
    'ask_question, a form',
    call('ask_question', 'input-available', {
      input: {
        question: 'Whom shall I invite?',
        fields: {
          properties: {
            name: { type: 'string', title: 'Name' },
            email: { type: 'string', format: 'email', title: 'E-mail' },
            meal: {
              title: 'Meal',
              oneOf: [
                { const: 'v', title: 'Vegetarian' },
                { const: 'm', title: 'With meat' },
              ],
            },
            days: {
              title: 'Days',
              type: 'array',
              uniqueItems: true,
              items: { enum: ['Friday', 'Saturday'] },
            },
          },
          required: ['name', 'email'],
        },
      },
    }),
  ),
  shown(
    'ask_question, answered',
    call('ask_question', 'output-available', {
      input: { question: 'Which colour?' },
      output: { answer: 'Mint' },
    }),
  ),
  shown(
    'pick_file',
    call('pick_file', 'input-available', {
      input: { purpose: 'The report that I should sum up', accept: '.csv,text/*' },
    }),
  ),
  shown(
    'pick_file, chosen',
    call('pick_file', 'output-available', {
      output: { name: 'report.csv', size: 1843, type: 'text/csv', text: 'month,sum\nMay,12\nJune,17' },
    }),
  ),
  shown(
    'show_chart',
    call('show_chart', 'output-available', {
      input: {
        title: 'Notes by month',
        kind: 'bar',
        labels: ['April', 'May', 'June'],
        series: [
          { name: 'written', values: [4, 9, 7] },
          { name: 'read', values: [12, 15, 11] },
        ],
      },
      output: { shown: true },
    }),
  ),
  shown(
    'create_record',
    call('create_record', 'input-available', {
      input: { collection: 'contacts', title: 'Ada Lovelace', data: { city: 'London', born: 1815 } },
    }),
  ),
  shown(
    'create_record, kept',
    call('create_record', 'output-available', {
      input: { collection: 'contacts', title: 'Ada Lovelace' },
      output: { created: true, id: 'x' },
    }),
  ),
];

/** Questions of MCP servers. */
export const elicitations = (['pending', 'accepted', 'declined', 'cancelled'] as const).map((state) => ({
  type: 'data-elicitation',
  data: {
    elicitationId: `elicitation_${state}`,
    toolCallId: 'call_1',
    server: 'reports',
    message: 'Which address shall the report go to?',
    requestedSchema: {
      type: 'object',
      properties: {
        email: { type: 'string', format: 'email', title: 'E-mail' },
        copy: { type: 'boolean', title: 'A copy for you', default: true },
      },
      required: ['email'],
    },
    state,
  },
}));
