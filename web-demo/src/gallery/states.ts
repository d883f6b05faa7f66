// The content of every state that a card can show.

import type { UIMessage } from 'ai';
import type { AskedCall, CallDetails, CallStatus, NoOutput, Plan } from 'fermata-chat';
import type { ServerTool, ServerTools } from '../chat/record/toolState';
import type { Schema } from '../chat/values/schemaFields';
import type { StateKey } from './texts';

type Part = UIMessage['parts'][number];

/** What is pressed as the state appears, because only the card itself knows this state. */
export type Press = 'edit' | 'deny' | 'always' | 'submit';

/** Calls of a step, as cards. */
export interface Calls {
  what: StateKey;
  message: UIMessage;
  press?: Press;
}

// === tools ===

const NOTE_SCHEMA = {
  type: 'object',
  properties: {
    title: { type: 'string', description: 'What the note is called.', maxLength: 60 },
    body: { type: 'string', description: 'What it says.' },
    priority: { type: ['integer', 'null'], minimum: 1, maximum: 5, description: 'From 1 to 5.' },
    tags: { type: 'array', items: { type: 'string' } },
  },
  required: ['title', 'body'],
  additionalProperties: false,
};

const serverTool = (name: string, policy: ServerTool['policy'], inputSchema: object): ServerTool => ({
  name,
  description: '',
  inputSchema,
  runBy: 'server',
  policy,
});

export const tools: ServerTools = {
  listed: [
    serverTool('write_note', 'ask', NOTE_SCHEMA),
    serverTool('search_notes', 'allow', { type: 'object' }),
    serverTool('fetch_url', 'ask', { type: 'object' }),
    serverTool('make_plan', 'ask', { type: 'object' }),
    { name: 'files__read', description: '', inputSchema: { type: 'object' }, runBy: 'mcp', policy: 'allow' },
  ],
  own: { makePlan: 'make_plan', updatePlan: 'update_plan', remember: 'remember', forget: 'forget' },
};

// === calls ===

const note = {
  title: 'Buy milk',
  body: 'Two litres, and oats.\nNot the sweet ones.',
  priority: 2,
  tags: ['home', 'food'],
};
const ARABIC_NOTE = {
  title: 'قائمة التسوق',
  body: 'لتران من الحليب، وشوفان.\nليس النوع المحلى (Oatly).',
  tags: ['البيت', 'الطعام'],
};

let made = 0;
const nextId = (kind: string) => `${kind}_${String(++made)}`;

const call = (name: string, state: string, more: object = {}): Part =>
  ({
    type: `tool-${name}`,
    toolCallId: nextId('call'),
    state,
    input: {},
    ...more,
  }) as unknown as Part;
const mcp = (state: string, more: object = {}): Part =>
  ({
    type: 'dynamic-tool',
    toolName: 'files__read',
    toolCallId: nextId('call'),
    state,
    input: { path: '/srv/files/report.csv' },
    toolMetadata: { server: 'files' },
    ...more,
  }) as unknown as Part;

/** The server's statuses of the calls that wait. */
export const statuses = new Map<string, CallStatus>();

function waiting(part: Part, status: Omit<CallStatus, 'state'>): Part {
  if ('toolCallId' in part) statuses.set(part.toolCallId, { state: 'scheduled', ...status });
  return part;
}

const question = (asked?: AskedCall, reason?: string) => ({
  approval: {
    id: nextId('approval'),
    ...(asked !== undefined && { descriptor: asked }),
    ...(reason !== undefined && { requestReason: reason }),
  },
});

const answered = (approved: boolean, reason?: string) => ({
  approval: { id: nextId('approval'), approved, ...(reason !== undefined && { reason }) },
});

/** The metadata of a message has the duration of each call that is done, and why the others have no output. */
function message(parts: Part[], noOutput?: NoOutput): UIMessage {
  const calls: Record<string, object> = {};
  for (const part of parts) {
    if (!('toolCallId' in part)) continue;
    if (part.state === 'output-available') calls[part.toolCallId] = { durationMs: 1432 };
    else if (noOutput !== undefined) calls[part.toolCallId] = noOutput;
  }
  return {
    id: nextId('message'),
    role: 'assistant',
    parts: [{ type: 'step-start' }, ...parts],
    metadata: { calls },
  };
}

const shown = (what: StateKey, ...parts: Part[]): Calls => ({ what, message: message(parts) });
const pressed = (what: StateKey, press: Press, ...parts: Part[]): Calls => ({
  what,
  press,
  message: message(parts),
});
const ended = (what: StateKey, noOutput: NoOutput, ...parts: Part[]): Calls => ({
  what,
  message: message(parts, noOutput),
});

const PIXELS =
  'iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAJElEQVQI12NkYPhfz4AHMDEw4JXGL8nCgE8apzQLAz5pnNIsAF0SBBG9oZ1kAAAAAElFTkSuQmCC';

/** The effect of a call of `write_note`. */
export const effectOf = (input: { title: string; body: string }): CallDetails => ({
  kind: 'edit',
  text: `notes/${input.title}.md`,
  before: 'One litre, and oats.\nNot the sweet ones.\n',
  after: `${input.body}\n`,
});

const described = (input: { title: string; body: string }) => ({
  input,
  title: 'Write a note',
  toolMetadata: { description: `Write the note “${input.title}”`, details: effectOf(input) },
});

const SCOPES = [
  { id: 'host:docs.example.com', label: 'docs.example.com', covers: 'fetch_url for docs.example.com' },
  { id: 'tool', label: 'fetch_url', covers: 'every call of fetch_url' },
];

/** An approval, in the order of a call's life. */
export const approvals: Calls[] = [
  shown('preparing', call('write_note', 'input-streaming', { input: { title: 'Buy' } })),
  shown('waiting', call('write_note', 'approval-requested', { input: note, ...question() })),
  shown(
    'others',
    waiting(call('refund', 'approval-requested', { input: { order: 7, amount: 120 }, ...question() }), {
      waitsFor: 'other_people',
      decision: {
        by: ['group:finance', 'user:carol'],
        quorum: 2,
        notRequester: true,
        approvedBy: ['alice'],
        mayDecide: false,
      },
    }),
  ),
  pressed('edited', 'edit', call('write_note', 'approval-requested', { ...described(note), ...question() })),
  shown('difference', call('write_note', 'approval-requested', { ...described(note), ...question() })),
  pressed(
    'scopes',
    'always',
    call('fetch_url', 'approval-requested', {
      input: { url: 'https://docs.example.com/guide' },
      ...question(
        { tool: 'fetch_url', inputText: '{"url":"https://docs.example.com/guide"}', scopes: SCOPES },
        'Pages outside of example.org need a look.',
      ),
    }),
  ),
  shown(
    'tricky',
    call('write_note', 'approval-requested', {
      input: { title: 'pаypal', body: 'Pay\u200bments' },
      ...question(),
    }),
  ),
  shown(
    'exact',
    call('write_note', 'approval-requested', {
      input: { title: 'Account', body: 12345678901234568000 },
      ...question({ tool: 'write_note', inputText: '{"title":"Account","body":12345678901234567890}' }),
    }),
  ),
  pressed('denying', 'deny', call('write_note', 'approval-requested', { input: note, ...question() })),
  shown('denied', call('write_note', 'output-denied', { input: note, ...answered(false, 'Not today') })),
  ended(
    'timedOut',
    { state: 'cancelled', code: 'expired' },
    call('write_note', 'output-error', { input: note, errorText: 'Nobody answered in time.' }),
  ),
  shown(
    'queued',
    waiting(call('search_notes', 'input-available', { input: { query: 'milk' } }), {
      waitsFor: 'resource',
      resource: 'notes',
    }),
  ),
  shown('running', call('write_note', 'approval-responded', { input: note, ...answered(true) })),
  shown(
    'progress',
    mcp('output-available', {
      preliminary: true,
      output: { progress: 3, total: 10, message: 'Reading the third page' },
    }),
  ),
  shown('endless', mcp('output-available', { preliminary: true, output: { progress: 41 } })),
  shown(
    'live',
    call('search_notes', 'output-available', {
      preliminary: true,
      input: { query: 'milk' },
      output: 'Found so far: 2',
    }),
  ),
  shown(
    'done',
    call('write_note', 'output-available', {
      input: note,
      output: { saved: true, id: 7, title: 'Buy milk' },
    }),
  ),
  shown(
    'picture',
    mcp('output-available', {
      output: {
        content: [
          { type: 'text', text: 'The page as a picture.' },
          { type: 'image', data: PIXELS, mimeType: 'image/png' },
        ],
      },
    }),
  ),
  ended(
    'failed',
    { state: 'error', code: 'timeout' },
    call('search_notes', 'output-error', {
      input: { query: 'milk' },
      errorText: 'The notes could not be read: the tool took longer than 60 s.',
    }),
  ),
  ended(
    'cancelled',
    { state: 'cancelled', code: 'by_person' },
    call('search_notes', 'output-error', { input: { query: 'milk' }, errorText: 'A person cancelled it.' }),
  ),
  ended(
    'lastOutput',
    { state: 'cancelled', code: 'by_person', lastOutput: 'Found so far: 2' },
    call('search_notes', 'output-error', { input: { query: 'milk' }, errorText: 'A person cancelled it.' }),
  ),
  shown('mcp', mcp('approval-requested', { title: 'Read any file', ...question() })),
  shown(
    'rightToLeft',
    call('write_note', 'approval-requested', {
      input: ARABIC_NOTE,
      ...question(undefined, 'يكتب هذا الاستدعاء ملفا في notes/.'),
    }),
  ),
];

const step = () => [
  waiting(call('search_notes', 'input-available', { input: { query: 'milk' } }), { waitsFor: 'gate' }),
  call('write_note', 'approval-requested', { input: note, ...question() }),
  mcp('approval-requested', question()),
];

/** A step with several calls. Some of them wait. */
export const gates: (Calls & { isClosed: boolean })[] = [
  { ...shown('closed', ...step()), isClosed: true },
  { ...shown('progressive', ...step()), isClosed: false },
];

// === plans ===

const STEPS: Plan['steps'] = [
  { id: 's1', title: 'Read the list', tool: 'search_notes', dependsOn: [], state: 'todo' },
  { id: 's2', title: 'Write the letter', tool: 'write_note', dependsOn: ['s1'], state: 'todo' },
  { id: 's3', title: 'Ask who signs', dependsOn: ['s1', 's2'], state: 'todo' },
];

function plan(state: Plan['state'], ...states: Plan['steps'][number]['state'][]): Plan {
  const steps = STEPS.map((step, at) => ({ ...step, state: states[at] ?? step.state }));
  return { goal: 'A letter to the neighbours', state, steps };
}

const PLAN_INPUT = {
  goal: 'A letter to the neighbours',
  steps: STEPS.map(({ id, title, dependsOn }) => ({ id, title, dependsOn })),
};

const proposal = (what: StateKey, press?: Press): Calls => ({
  what,
  ...(press !== undefined && { press }),
  message: message([
    call('make_plan', 'approval-requested', { input: PLAN_INPUT, ...question() }),
    { type: 'data-plan', id: nextId('plan'), data: plan('proposed') },
  ]),
});

export const proposals: Calls[] = [proposal('proposed'), proposal('edit', 'edit')];

/** Plans by themselves. */
export const plans: { what: StateKey; plan: Plan; isGrowing: boolean }[] = [
  { what: 'accepted', plan: plan('accepted', 'done', 'doing'), isGrowing: true },
  { what: 'continued', plan: plan('accepted', 'done', 'failed', 'doing'), isGrowing: false },
  { what: 'finished', plan: plan('done', 'done', 'done', 'skipped'), isGrowing: false },
  { what: 'dropped', plan: plan('denied', 'done'), isGrowing: false },
  {
    what: 'rightToLeft',
    plan: {
      goal: 'رسالة إلى الجيران',
      state: 'accepted',
      steps: [
        { id: 'a', title: 'قراءة القائمة', tool: 'search_notes', dependsOn: [], state: 'done' },
        { id: 'b', title: 'كتابة الرسالة (PDF)', dependsOn: ['a'], state: 'doing' },
      ],
    },
    isGrowing: true,
  },
];

// === forms ===

const FIELDS: Schema = {
  type: 'object',
  properties: {
    title: { type: 'string', title: 'Title', description: 'One line.' },
    body: { type: 'string', title: 'Text', maxLength: 2000 },
    email: { type: 'string', format: 'email', title: 'E-mail' },
    page: { type: 'string', format: 'uri', title: 'Page' },
    day: { type: 'string', format: 'date', title: 'Day' },
    time: { type: 'string', format: 'date-time', title: 'Time' },
    count: { type: 'integer', minimum: 1, maximum: 5, title: 'Count' },
    share: { type: 'number', title: 'Share' },
    pinned: { type: 'boolean', title: 'Pinned' },
    colour: { enum: ['paper', 'mint', 'sky'], title: 'Colour' },
    days: { type: 'array', uniqueItems: true, items: { enum: ['Friday', 'Saturday'] }, title: 'Days' },
    tags: { type: 'array', items: { type: 'string' }, title: 'Tags' },
    reminder: {
      type: 'object',
      title: 'Reminder',
      properties: { minutes: { type: 'number' }, sound: { type: ['string', 'null'] } },
      required: ['minutes'],
    },
    kind: { const: 'note', title: 'Kind' },
    more: { title: 'Anything else' },
  },
  required: ['title', 'count', 'pinned'],
};

export interface Form {
  what: StateKey;
  schema: Schema | undefined;
  value: unknown;
  press?: Press;
}

export const forms: Form[] = [
  {
    what: 'fields',
    schema: FIELDS,
    value: {
      title: 'Buy milk',
      body: note.body,
      days: ['Friday'],
      tags: ['home', 'food'],
      reminder: { minutes: 10, sound: null },
      kind: 'note',
      more: { from: [1, 2] },
    },
  },
  {
    what: 'guessed',
    schema: {
      type: 'object',
      properties: {
        day: { type: 'string', title: 'For which day?', enum: ['Friday', 'Saturday'], default: 'Friday' },
        people: { type: 'string', title: 'For how many people?', default: '2' },
      },
    },
    value: { day: 'Friday', people: '2' },
  },
  { what: 'invalid', schema: FIELDS, value: { title: 7, count: 9, email: 'nobody' }, press: 'submit' },
  { what: 'json', schema: undefined, value: note },
  {
    what: 'rightToLeft',
    schema: {
      type: 'object',
      properties: {
        title: { type: 'string', title: 'العنوان', description: 'سطر واحد.' },
        colour: { enum: ['أبيض', 'أخضر'], title: 'اللون' },
      },
      required: ['title'],
    },
    value: { title: 'قائمة التسوق' },
  },
];

// === questions ===

type QuestionState = 'pending' | 'accepted' | 'declined' | 'cancelled';

function elicitation(
  what: StateKey,
  message: string,
  properties: Schema,
  more: { state?: QuestionState; [field: string]: unknown } = {},
) {
  const data = {
    elicitationId: nextId('elicitation'),
    toolCallId: 'call_1',
    tool: 'ask_user',
    asks: 'assistant',
    message,
    requestedSchema: { type: 'object', properties, required: Object.keys(properties) },
    state: 'pending',
    ...more,
  };
  return { what, part: { type: 'data-elicitation', data } };
}

const REPORTS = { asks: 'mcp', server: 'reports', tool: 'reports__send' };

export const questions = [
  elicitation('oneField', 'What shall the note be called?', {
    title: { type: 'string', title: 'What shall the note be called?' },
  }),
  elicitation('choices', 'For which day?', {
    day: {
      type: 'string',
      title: 'For which day?',
      enum: ['Friday', 'Saturday', 'Sunday'],
      default: 'Friday',
    },
  }),
  elicitation(
    'several',
    'Which address shall the report go to?',
    {
      email: { type: 'string', format: 'email', title: 'E-mail' },
      copy: { type: 'boolean', title: 'A copy for you', default: true },
    },
    REPORTS,
  ),
  elicitation(
    'address',
    'Where does the page stand?',
    { page: { type: 'string', format: 'uri', title: 'Page' } },
    REPORTS,
  ),
  elicitation('yesOrNo', 'Shall the report be sent now?', {}, REPORTS),
  elicitation(
    'secret',
    'Please enter your password.',
    { password: { type: 'string', title: 'Password' } },
    REPORTS,
  ),
  elicitation(
    'afterFailure',
    'The call failed.',
    {},
    {
      asks: 'tool',
      tool: 'search_notes',
      code: 'call_failed',
      errorType: 'timeout',
      errorText: 'The notes could not be read: the tool took longer than 60 s.',
    },
  ),
  elicitation('answered', 'Shall the report be sent now?', {}, { ...REPORTS, state: 'accepted' }),
  elicitation('declined', 'Shall the report be sent now?', {}, { ...REPORTS, state: 'declined' }),
  elicitation('cancelled', 'Shall the report be sent now?', {}, { ...REPORTS, state: 'cancelled' }),
  elicitation(
    'rightToLeft',
    'إلى أي عنوان يرسل التقرير؟',
    { email: { type: 'string', format: 'email', title: 'البريد الإلكتروني' } },
    REPORTS,
  ),
];

// === tools of the page ===

export const browserTools: Calls[] = [
  shown('elsewhere', call('open_door', 'input-available')),
  shown('atWork', call('get_location', 'input-available')),
  shown(
    'result',
    call('get_location', 'output-available', {
      output: { latitude: 47.3769, longitude: 8.5417, accuracy: 24 },
    }),
  ),
  shown(
    'oneField',
    call('ask_question', 'input-available', { input: { question: 'What shall the note be called?' } }),
  ),
  shown(
    'choices',
    call('ask_question', 'input-available', {
      input: { question: 'Which colour?', options: ['Paper', 'Mint', 'Sky over the lake in the morning'] },
    }),
  ),
  shown(
    'several',
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
          },
          required: ['name', 'email'],
        },
      },
    }),
  ),
  shown(
    'answered',
    call('ask_question', 'output-available', {
      input: { question: 'Which colour?' },
      output: { answer: 'Mint' },
    }),
  ),
  shown(
    'waiting',
    call('pick_file', 'input-available', {
      input: { purpose: 'The report that I should sum up', accept: '.csv,text/*' },
    }),
    call('create_record', 'input-available', {
      input: { collection: 'contacts', title: 'Ada Lovelace', data: { city: 'London', born: 1815 } },
    }),
  ),
  shown(
    'done',
    call('pick_file', 'output-available', {
      output: { name: 'report.csv', size: 1843, type: 'text/csv', text: 'month,sum\nMay,12\nJune,17' },
    }),
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
    call('create_record', 'output-available', {
      input: { collection: 'contacts', title: 'Ada Lovelace' },
      output: { created: true, id: 'x' },
    }),
  ),
];
