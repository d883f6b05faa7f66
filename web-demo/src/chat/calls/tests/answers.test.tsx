// What a person does in a card, by role and name, and what the chat is told.

import { act, render, screen, waitFor, within } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { describe, expect, it, vi } from 'vitest';
import { FermataError } from 'fermata-chat';
import { MessageView } from '../../messages/MessageView';
import type { AnyToolPart } from '../../record/toolState';
import { call, fakeChat, messageOf, setUpPage, TOOLS } from '../../tests/page';
import { ElicitationCard } from '../ElicitationCard';
import { Gate } from '../Gate';
import { QuestionOfOldClient } from '../StepView';
import { ToolCard } from '../ToolCard';

vi.mock('../../server/useTools', () => ({ useTools: () => ({ state: 'known', tools: TOOLS }) }));

setUpPage();

const NOTE = { title: 'Milk', body: 'Two litres', stars: 3 };

function show(part: AnyToolPart, chat = fakeChat()) {
  const message = messageOf(part);
  const view = render(<ToolCard {...{ part, message, chat }} tools={TOOLS} />);
  const update = (part: AnyToolPart) => {
    view.rerender(<ToolCard {...{ part, chat }} message={messageOf(part)} tools={TOOLS} />);
  };
  return { chat, update, user: userEvent.setup() };
}

/** The menu beside Approve. */
const ALWAYS = 'Always allow';

const TOOL_SCOPE = { id: 'tool', label: 'write_note', covers: 'every call' };

/** What an approval request says of its call. */
const asked = (input: unknown, more: object = {}) => ({
  input,
  approval: {
    id: 'approval of a',
    descriptor: { tool: 'write_note', inputText: JSON.stringify(input), scopes: [TOOL_SCOPE], ...more },
  },
});

const showQuestion = (chat = fakeChat()) =>
  show(call('a', 'write_note', 'approval-requested', asked(NOTE)), chat);
const press = async (user: ReturnType<typeof userEvent.setup>, name: string) =>
  user.click(screen.getByRole('button', { name }));

describe('a question whether a call may run', () => {
  it.each([
    ['Approve', { approved: true }],
    [
      'Always in this chat: every call of write_note',
      { approved: true, always: { scope: 'tool', for: 'chat' } },
    ],
  ])('is answered once by %s', async (name, response) => {
    const { chat, user } = showQuestion();
    await press(user, ALWAYS);
    await user.dblClick(screen.getByRole('button', { name }));
    expect(chat.addToolApprovalResponse.mock.calls).toEqual([[{ id: 'approval of a', ...response }]]);
  });

  it('has one loud button, and a menu that Escape closes', async () => {
    const { user } = showQuestion();
    expect(screen.getAllByRole('button', { name: /^(Approve|Always|In this chat)/ })).toHaveLength(2);
    await press(user, ALWAYS);
    await user.tab();
    await user.keyboard('{Escape}');
    const menu = screen.getByRole('button', { name: ALWAYS });
    expect(document.activeElement).toBe(menu);
    expect(menu.getAttribute('aria-expanded')).toBe('false');
  });

  it('is denied with a reason, or without', async () => {
    const first = showQuestion();
    await press(first.user, 'Deny');
    await first.user.keyboard('  not today {Enter}');
    expect(first.chat.addToolApprovalResponse.mock.calls).toEqual([
      [{ id: 'approval of a', approved: false, reason: 'not today' }],
    ]);
  });

  it('is not answered by going back', async () => {
    const { chat, user } = showQuestion();
    await press(user, 'Deny');
    await press(user, 'Back');
    expect(document.activeElement).toBe(screen.getByRole('button', { name: 'Deny' }));
    expect(chat.addToolApprovalResponse).not.toHaveBeenCalled();
  });

  it('takes no second answer while one is under way', async () => {
    const chat = fakeChat();
    let arrive = () => {
      /* not yet */
    };
    chat.addToolApprovalResponse.mockImplementation(
      () =>
        new Promise((resolve) => {
          arrive = resolve;
        }),
    );
    const { user } = showQuestion(chat);
    await press(user, 'Approve');
    expect(screen.getByRole('button', { name: 'Approve' }).getAttribute('aria-busy')).toBe('true');
    for (const name of ['Approve', ALWAYS, 'Edit', 'Deny']) await press(user, name);
    await act(async () => {
      arrive();
      await Promise.resolve();
    });
    expect(chat.addToolApprovalResponse).toHaveBeenCalledTimes(1);
  });

  it('says why an answer was refused, and can be answered again', async () => {
    const chat = fakeChat();
    chat.addToolApprovalResponse.mockRejectedValueOnce(
      new FermataError(503, 'unavailable', 'The database cannot be reached.'),
    );
    const { user } = showQuestion(chat);
    await press(user, 'Approve');
    expect((await screen.findByRole('alert')).textContent).toBe('The database cannot be reached.');
    await press(user, 'Approve');
    expect(chat.addToolApprovalResponse).toHaveBeenCalledTimes(2);
    await waitFor(() => {
      expect(screen.queryByRole('alert')).toBeNull();
    });
  });

  it.each([
    ['already_answered', 'answered elsewhere'],
    ['gone', 'This question has expired'],
  ])('says kindly that it was settled: %s', async (code, words) => {
    const chat = fakeChat();
    chat.addToolApprovalResponse.mockRejectedValue(new FermataError(409, code, 'call a is in state success'));
    const { user } = showQuestion(chat);
    await press(user, 'Approve');
    expect((await screen.findByRole('alert')).textContent).toContain(words);
    await press(user, 'Approve');
    expect(chat.addToolApprovalResponse).toHaveBeenCalledTimes(1);
  });

  it('keeps the focus in the card when its buttons go away', async () => {
    const { user, update } = showQuestion();
    await press(user, 'Approve');
    update(call('a', 'write_note', 'input-available', { input: NOTE }));
    await waitFor(() => {
      expect(document.activeElement).toBe(screen.getByRole('article'));
    });
  });
});

describe('what is asked about', () => {
  it('always names the tool and the MCP server, and quotes the title of the server', () => {
    const part = call('a', 'bank__pay', 'approval-requested', {
      ...asked({ n: 1 }, { tool: 'bank__pay', server: 'bank' }),
      type: 'dynamic-tool',
      toolName: 'bank__pay',
      title: 'Look up the weather',
      toolMetadata: { server: 'bank' },
    });
    show(part);
    const heading = screen.getByRole('heading', { level: 2 });
    expect(heading.textContent).toContain('bank__pay');
    expect(heading.textContent).toContain('MCP server bank');
    expect(heading.textContent).not.toContain('weather');
    expect(screen.getByText('“Look up the weather”').tagName).toBe('P');
  });

  it('keeps the title of a tool of the server, beside its name', () => {
    show(call('a', 'write_note', 'approval-requested', { ...asked(NOTE), title: 'Write a note' }));
    expect(screen.getByRole('heading', { level: 2 }).textContent).toMatch(/^Write a notewrite_note/);
  });

  const edit = (text: string, after: string) => ({ kind: 'edit', text, before: '', after });
  const described = (input: { title: string; body: string }) => ({
    ...asked(input),
    title: 'Write a note',
    toolMetadata: { description: `Write the note “${input.title}”`, details: edit(input.title, input.body) },
  });

  it('is said once: a sentence as the title, the difference, and the input folded', () => {
    show(call('a', 'write_note', 'approval-requested', described({ title: 'Milk', body: 'Two litres' })));
    expect(screen.getByRole('heading', { level: 2 }).textContent).toBe('Write the note “Milk”write_note');
    expect(screen.getAllByText(/Milk/)).toHaveLength(1);
    expect(screen.getByLabelText('The difference, line by line').textContent).toContain('Two litres');
    expect(screen.queryByRole('group', { name: 'Input' })).toBeNull();
  });

  it('names what is changed if the title does not', () => {
    const part = described({ title: 'Milk', body: 'Two litres' });
    part.toolMetadata.details.text = 'notes/milk.md';
    show(call('a', 'write_note', 'approval-requested', part));
    expect(screen.getByText('notes/milk.md')).toBeTruthy();
  });

  it.each([
    ['a long text', 'x'.repeat(2_000)],
    ['an invisible character', 'a\u200bb'],
    ['a letter of another alphabet', 'p\u0430ypal'],
  ])('is shown as it is, besides the difference, if it has %s', (_, body) => {
    show(call('a', 'write_note', 'approval-requested', described({ title: 'Milk', body })));
    expect(screen.getByRole('group', { name: 'Input' })).toBeTruthy();
  });

  it('is not in the words of an MCP server', () => {
    const part = { ...described({ title: 'Milk', body: '' }), type: 'dynamic-tool', toolName: 'bank__pay' };
    show(
      call('a', 'bank__pay', 'approval-requested', {
        ...part,
        toolMetadata: { ...part.toolMetadata, server: 'bank' },
      }),
    );
    expect(screen.getByRole('heading', { level: 2 }).textContent).toBe('bank__payMCP server bank');
  });

  it('is a plan with its steps, in one card, from the question to the last step', async () => {
    const input = { goal: 'Tidy up', steps: [{ id: 'one', title: 'Read the list' }] };
    const data = (state: string, step: string) => ({
      ...{ goal: input.goal, state },
      steps: [{ ...input.steps[0], dependsOn: [], state: step }],
    });
    const chat = fakeChat();
    const view = (part: AnyToolPart, data: object, isGrowing: boolean) => {
      const message = messageOf(part);
      message.parts.push({ type: 'data-plan', id: 'run', data });
      const actions = { beginEdit: () => undefined, edit: () => undefined, regenerate: () => undefined };
      return <MessageView {...{ message, chat, actions, isGrowing }} isLast isEdited={false} />;
    };
    const waits = call('a', 'make_plan', 'approval-requested', { input });
    const { rerender } = render(view(waits, data('proposed', 'todo'), true));
    const card = screen.getByRole('article', { name: 'Tool call make_plan' });
    const plan = within(card).getByRole('group', { name: 'Plan' });
    expect(screen.getAllByText(/Tidy up/)).toHaveLength(1);
    expect(plan.textContent).toContain('Read the list');
    expect(screen.queryByRole('group', { name: 'Input' })).toBeNull();
    await press(userEvent.setup(), 'Edit');
    expect(screen.getByLabelText<HTMLInputElement>('Goal').value).toBe('Tidy up');
    const done = call('a', 'make_plan', 'output-available', { input, output: {} });
    rerender(view(done, data('accepted', 'doing'), true));
    expect(within(card).getByRole('status').textContent).toBe('In progress · 0 of 1 step');
    rerender(view(done, data('done', 'done'), false));
    expect(within(card).getByRole('status').textContent).toBe('Done · 1 of 1 step');
    expect(screen.getAllByRole('group', { name: 'Plan' })).toHaveLength(1);
  });

  it.each([
    '{"n":10000000000000000001}',
    '{"list":[[{"deep":9007199254740993}]]}',
    '{"n":-0}',
    '{"n":1e400}',
    '{"n":0.30000000000000000001}',
  ])('is shown, and edited, as the text that runs, if numbers cannot be read: %s', async (inputText) => {
    const input: unknown = JSON.parse(inputText);
    const { chat, user } = show(call('a', 'unknown', 'approval-requested', asked(input, { inputText })));
    expect(screen.getByRole('group', { name: 'Input' }).textContent).toContain(inputText);
    await press(user, 'Edit');
    const editor = screen.getByRole<HTMLTextAreaElement>('textbox', { name: 'JSON' });
    expect(editor.value).toBe(inputText);
    await user.type(editor, '{End}', { initialSelectionStart: 1, initialSelectionEnd: 1 });
    await user.type(editor, '"to":"b",', { initialSelectionStart: 1, initialSelectionEnd: 1 });
    await press(user, 'Approve with these changes');
    expect(chat.addToolApprovalResponse.mock.calls).toEqual([
      [{ id: 'approval of a', approved: true, inputText: inputText.replace('{', '{"to":"b",') }],
    ]);
  });

  it('can be allowed for another scope, for all chats, or for a day', async () => {
    const scopes = [TOOL_SCOPE, { id: 'server:bank', label: 'all tools of bank', covers: 'all' }];
    const { chat, user } = show(call('a', 'write_note', 'approval-requested', asked(NOTE, { scopes })));
    await press(user, ALWAYS);
    await press(user, 'Always in all my chats: every call of the tools that bank has now');
    expect(chat.addToolApprovalResponse.mock.calls).toEqual([
      [{ id: 'approval of a', approved: true, always: { scope: 'server:bank', for: 'owner' } }],
    ]);
  });

  it('cannot be allowed for always without a scope', () => {
    show(call('a', 'write_note', 'approval-requested', asked(NOTE, { scopes: [] })));
    expect(screen.queryByRole('button', { name: /lways/ })).toBeNull();
  });
});

describe('an input that is too long to be shown at once', () => {
  const LONG = Array.from({ length: 200 }, (_, line) => `line ${line}`).join('\n');
  const disabled = (name: string) => screen.getByRole<HTMLButtonElement>('button', { name }).disabled;

  it.each([
    ['a text', { title: 'Milk', body: LONG }],
    ['a text in a list in an object', { list: [{ deep: LONG }] }],
    ['a text so deep that it is JSON', { a: { b: { c: { d: LONG } } } }],
    ['many fields', Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`field${at}`, at]))],
    ['a long list', { list: Array.from({ length: 30 }, (_, at) => at) }],
  ])('cannot be approved before all of it was shown: %s', async (_, input) => {
    const { chat, user } = show(
      call('a', 'write_note', 'approval-requested', {
        ...asked(input),
        approval: { ...asked(input).approval, id: JSON.stringify(input) },
      }),
    );
    expect([disabled('Approve'), disabled(ALWAYS), disabled('Deny')]).toEqual([true, true, false]);
    await press(user, 'Show all of it');
    expect(screen.queryByRole('button', { name: /^Show all/ })).toBeNull();
    await press(user, 'Approve');
    expect(chat.addToolApprovalResponse).toHaveBeenCalledTimes(1);
  });

  it('is shown by any of its places, also while the card is folded', async () => {
    const { user } = show(
      call('a', 'unknown', 'approval-requested', {
        input: { one: LONG, other: LONG },
        approval: { id: 'both' },
      }),
    );
    await press(user, 'Details of unknown');
    expect(disabled('Approve')).toBe(true);
    await press(user, 'Show all of it');
    expect(screen.getAllByText(/line 100/)).toHaveLength(2);
    expect(disabled('Approve')).toBe(false);
  });

  it('cannot be approved with others at once either', async () => {
    const part = call('a', 'unknown', 'approval-requested', {
      input: { body: LONG },
      approval: { id: 'with others' },
    });
    const message = messageOf(part, call('b', 'write_note', 'approval-requested'));
    const chat = fakeChat();
    render(
      <>
        <ToolCard part={part} message={message} chat={chat} tools={TOOLS} />
        <Gate message={message} chat={chat} />
      </>,
    );
    expect([disabled('Approve all'), disabled('Deny all')]).toEqual([true, false]);
    await press(userEvent.setup(), 'Show all');
    expect(disabled('Approve all')).toBe(false);
  });

  it('is put to a client of version 5 with its input', async () => {
    const input = { body: LONG };
    const part = {
      type: 'data-tool-approval' as const,
      id: 'old',
      data: { approvalId: 'old', toolCallId: 'a', toolName: 'unknown' },
    };
    const message = messageOf(call('a', 'unknown', 'input-available', { input }));
    const chat = fakeChat();
    render(<QuestionOfOldClient part={part} message={message} chat={chat} />);
    expect(screen.getByText(/line 199$/)).toBeTruthy();
    expect(disabled('Approve')).toBe(true);
    await press(userEvent.setup(), 'Show all of it');
    expect(screen.getByText(/line 100/)).toBeTruthy();
    await press(userEvent.setup(), 'Approve');
    expect(chat.addToolApprovalResponse.mock.calls).toEqual([[{ id: 'old', approved: true }]]);
  });
});

it('what an input hides is named before it is approved', () => {
  show(
    call('a', 'unknown', 'approval-requested', {
      input: { 'na\u200bme': `ok${'\n'.repeat(200)}HIDDEN \u202etxt` },
    }),
  );
  const input = within(screen.getByRole('group', { name: 'Input' }));
  expect(input.getByText(/HIDDEN/).textContent).toBe('ok\n199 empty lines\nHIDDEN U+202Etxt');
  expect(input.getByText('U+200B')).toBeTruthy();
  expect(
    screen.getByText(
      'The input has 2 characters that are invisible or change the direction of the text: U+200B, U+202E.',
    ),
  ).toBeTruthy();
});

describe('an edited input', () => {
  it('is seen as a whole', async () => {
    const { user } = show(
      call('a', 'write_note', 'approval-requested', {
        input: { title: 'x'.repeat(200), body: 'a\n'.repeat(100) },
      }),
    );
    await press(user, 'Edit');
    expect(screen.getAllByRole('textbox').map((field) => field.getAttribute('rows'))).toEqual([
      '4',
      '101',
      null,
    ]);
  });

  it('is what was typed into the form', async () => {
    const { chat, user } = showQuestion();
    await press(user, 'Edit');
    const title = screen.getByLabelText('title');
    await waitFor(() => {
      expect(document.activeElement).toBe(title);
    });
    await user.clear(title);
    await user.type(title, 'Oats');
    await user.clear(screen.getByLabelText(/stars/));
    await press(user, 'Approve with these changes');
    expect(chat.addToolApprovalResponse.mock.calls).toEqual([
      [{ id: 'approval of a', approved: true, inputText: '{"title":"Oats","body":"Two litres"}' }],
    ]);
  });

  it('is shown as the call would be with it, and as denied if a rule denies it', async () => {
    const chat = fakeChat();
    chat.previewInput.mockImplementation((_, inputText) => {
      const { title, body } = JSON.parse(inputText) as typeof NOTE;
      if (title === '') return Promise.reject(new Error('it does not fit'));
      const details = { kind: 'edit', text: title, before: '', after: body } as const;
      return Promise.resolve({ details, decision: title === 'Secret' ? 'deny' : 'ask' });
    });
    const { user } = showQuestion(chat);
    await press(user, 'Edit');
    const body = screen.getByLabelText('body');
    await user.clear(body);
    await user.type(body, 'Three litres');
    const difference = await screen.findByRole('figure');
    await waitFor(() => {
      expect(difference.textContent).toContain('Three litres');
    });
    expect(screen.queryByText('A rule denies the call with this input.')).toBeNull();
    const title = screen.getByLabelText('title');
    await user.clear(title);
    await waitFor(() => {
      expect(screen.queryByRole('figure')).toBeNull();
    });
    await user.type(title, 'Secret');
    expect(await screen.findByText('A rule denies the call with this input.')).toBeTruthy();
    expect(chat.addToolApprovalResponse).not.toHaveBeenCalled();
  });

  it('is the same after every field was touched and put back, and in both views', async () => {
    const input = { body: 'one\ntwo', stars: 3, title: 'Milk' };
    const { chat, user } = show(call('a', 'write_note', 'approval-requested', { input }));
    await press(user, 'Edit');
    for (const field of screen.getAllByRole('textbox')) await user.type(field, '1{Backspace}');
    await press(user, 'JSON');
    expect(JSON.parse(screen.getByRole<HTMLTextAreaElement>('textbox', { name: 'JSON' }).value)).toEqual(
      input,
    );
    await press(user, 'Form');
    await press(user, 'Approve with these changes');
    expect(chat.addToolApprovalResponse.mock.calls[0]?.[0]).toEqual({
      id: 'approval of a',
      approved: true,
      inputText: JSON.stringify(input),
    });
  });

  it('goes from one view to the other with what was typed', async () => {
    const { chat, user } = showQuestion();
    await press(user, 'Edit');
    await user.type(screen.getByLabelText('title'), '!');
    await press(user, 'JSON');
    const json = screen.getByRole<HTMLTextAreaElement>('textbox', { name: 'JSON' });
    await user.clear(json);
    await user.type(json, '{{"title":"From JSON","body":"b"');
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Form' }).disabled).toBe(true);
    await user.type(json, '}');
    await press(user, 'Form');
    expect(screen.getByLabelText<HTMLInputElement>('title').value).toBe('From JSON');
    await press(user, 'Approve with these changes');
    const { inputText = '' } = chat.addToolApprovalResponse.mock.calls[0]?.[0] ?? {};
    expect(JSON.parse(inputText)).toEqual({ title: 'From JSON', body: 'b' });
  });

  it('is not sent while it does not fit, and the field says why', async () => {
    const { chat, user } = showQuestion();
    await press(user, 'Edit');
    const title = screen.getByLabelText('title');
    await user.clear(title);
    const stars = screen.getByLabelText(/stars/);
    await user.clear(stars);
    await user.type(stars, 'many');
    await press(user, 'Approve with these changes');
    expect(chat.addToolApprovalResponse).not.toHaveBeenCalled();
    expect(screen.getByRole('alert').textContent).toContain('2 values are not valid yet.');
    expect(title.getAttribute('aria-invalid')).toBe('true');
    expect(document.getElementById(title.getAttribute('aria-describedby') ?? '')?.textContent).toBe(
      'Too short: 1 or more characters are needed.',
    );
    expect(document.activeElement).toBe(title);
    await user.type(title, 'x');
    expect(title.getAttribute('aria-invalid')).toBeNull();
  });

  it('shows a refusal of the server at its field until that is changed', async () => {
    const chat = fakeChat();
    chat.addToolApprovalResponse.mockRejectedValueOnce(
      new FermataError(422, 'invalid_request', 'The input does not fit.', [
        { pointer: '/title', detail: '"Milk" is taken' },
      ]),
    );
    const { user } = showQuestion(chat);
    await press(user, 'Edit');
    await press(user, 'Approve with these changes');
    expect((await screen.findByRole('alert')).textContent).toContain('does not fit');
    const title = screen.getByLabelText('title');
    expect(title.getAttribute('aria-invalid')).toBe('true');
    expect(screen.getByText('"Milk" is taken')).toBeTruthy();
    await user.type(title, '2');
    expect(title.getAttribute('aria-invalid')).toBeNull();
    await press(user, 'Approve with these changes');
    expect(chat.addToolApprovalResponse).toHaveBeenCalledTimes(2);
  });

  it('is JSON where nobody knows the schema', async () => {
    const { user } = show(call('a', 'unknown', 'approval-requested', { input: [1] }));
    await press(user, 'Edit');
    expect(screen.getByRole<HTMLTextAreaElement>('textbox', { name: 'JSON' }).value).toBe('[\n  1\n]');
    expect(screen.queryByRole('button', { name: 'Form' })).toBeNull();
  });
});

describe('the gate', () => {
  const two = () =>
    messageOf(
      call('a', 'write_note', 'approval-requested'),
      call('b', 'write_note', 'approval-requested'),
      call('c', 'search_notes', 'input-available'),
    );

  it.each([
    ['Approve all', true],
    ['Deny all', false],
  ])('%s answers every question once', async (name, approved) => {
    const chat = fakeChat();
    const user = userEvent.setup();
    render(<Gate message={two()} chat={chat} />);
    expect(screen.getByRole('status').textContent).toBe('2 decisions left');
    await user.dblClick(screen.getByRole('button', { name }));
    await waitFor(() => {
      expect(chat.addToolApprovalResponse.mock.calls).toEqual([
        [{ id: 'approval of a', approved }],
        [{ id: 'approval of b', approved }],
      ]);
    });
  });

  it('goes on with the others where one was answered elsewhere', async () => {
    const chat = fakeChat();
    chat.addToolApprovalResponse.mockRejectedValueOnce(new FermataError(409, 'already_answered', 'x'));
    render(<Gate message={two()} chat={chat} />);
    await press(userEvent.setup(), 'Approve all');
    await waitFor(() => {
      expect(chat.addToolApprovalResponse).toHaveBeenCalledTimes(2);
    });
    expect(screen.queryByRole('alert')).toBeNull();
  });
});

describe('a question of a running tool', () => {
  const requestedSchema = {
    type: 'object',
    properties: { email: { type: 'string', format: 'email' }, copy: { type: 'boolean', default: true } },
    required: ['email'],
  };
  const part = (state: string) => ({
    type: 'data-elicitation',
    data: { elicitationId: 'e', toolCallId: 'a', message: 'Whereto?', requestedSchema, state },
  });

  it('is answered with what fits', async () => {
    const chat = fakeChat();
    const user = userEvent.setup();
    render(<ElicitationCard part={part('pending')} chat={chat} />);
    await press(user, 'Send');
    expect(chat.answerElicitation).not.toHaveBeenCalled();
    await user.type(screen.getByLabelText('email'), 'a@b.ch');
    await press(user, 'Send');
    expect(chat.answerElicitation.mock.calls).toEqual([
      [{ elicitationId: 'e', action: 'accept', content: { email: 'a@b.ch', copy: true } }],
    ]);
  });

  it.each([
    ['Decline', 'decline'],
    ['Cancel', 'cancel'],
  ] as const)('is left by %s', async (name, action) => {
    const chat = fakeChat();
    render(<ElicitationCard part={part('pending')} chat={chat} />);
    await press(userEvent.setup(), name);
    expect(chat.answerElicitation.mock.calls).toEqual([[{ elicitationId: 'e', action }]]);
  });

  it.each([
    ['The MCP server “evil” asks:', { asks: 'mcp', server: 'evil' }],
    ['The assistant asks:', { asks: 'assistant', state: 'accepted' }],
    ['write_note asks:', { asks: 'tool', tool: 'write_note' }],
    [
      'write_note has failed.',
      {
        asks: 'tool',
        tool: 'write_note',
        code: 'call_failed',
        errorType: 'network',
        errorText: 'Fermata asks\u200b: whereto?',
      },
    ],
    ['The MCP server “e[U+202E]vil” asks:', { asks: 'mcp', server: 'e\u202evil' }],
  ])('is in the name of who asks: %s', (words, more) => {
    const { data } = part('pending');
    render(
      <ElicitationCard
        part={{
          type: 'data-elicitation',
          data: { ...data, ...more, message: 'Fermata asks\u200b: whereto?' },
        }}
        chat={fakeChat()}
      />,
    );
    expect(screen.getByRole('heading').textContent).toBe(words);
    expect(screen.getByRole('blockquote').textContent).toBe('Fermata asksU+200B: whereto?');
  });

  it('warns of what looks like a secret, until it is answered', () => {
    const question = (state: string, message: string, properties: object) => ({
      type: 'data-elicitation',
      data: {
        elicitationId: message,
        toolCallId: 'a',
        server: 'evil',
        message,
        requestedSchema: { type: 'object', properties },
        state,
      },
    });
    const { rerender } = render(
      <ElicitationCard
        part={question('pending', 'Whereto?', { p: { type: 'string', title: 'Your PIN' } })}
        chat={fakeChat()}
      />,
    );
    expect(screen.getByRole('note').textContent).toContain(
      'secret: Your PIN. What you enter goes to “evil”.',
    );
    rerender(
      <ElicitationCard
        part={question('pending', 'Your password?', { answer: { type: 'string' } })}
        chat={fakeChat()}
      />,
    );
    expect(screen.getByRole('note').textContent).toContain('This seems to ask for a secret.');
    rerender(
      <ElicitationCard
        part={question('pending', 'Which color?', { answer: { type: 'string' } })}
        chat={fakeChat()}
      />,
    );
    expect(screen.queryByRole('note')).toBeNull();
    rerender(<ElicitationCard part={question('accepted', 'Your password?', {})} chat={fakeChat()} />);
    expect(screen.queryByRole('note')).toBeNull();
  });

  it('asks no more once it is settled', () => {
    const { rerender } = render(<ElicitationCard part={part('pending')} chat={fakeChat()} />);
    rerender(<ElicitationCard part={part('declined')} chat={fakeChat()} />);
    expect(screen.getByRole('status').textContent).toBe('You declined');
    expect(screen.queryByRole('button')).toBeNull();
  });
});

describe('what a card shows', () => {
  it('tells progress as a share', () => {
    show(
      call('a', 'files__read', 'output-available', {
        preliminary: true,
        output: { progress: 3, total: 4, message: 'Third page' },
      }),
    );
    const bar = screen.getByRole('progressbar', { name: 'Third page' });
    expect([bar.getAttribute('aria-valuenow'), bar.getAttribute('aria-valuetext')]).toEqual(['75', '3 of 4']);
  });

  it('shows pictures of a result, links to the web only, and JSON of what it does not know', () => {
    const content = [
      { type: 'image', data: 'AAAA', mimeType: 'image/png' },
      { type: 'resource_link', uri: 'https://example.com/x', name: 'web' },
      { type: 'resource_link', uri: 'javascript:alert(1)', name: 'not web' },
      { type: 'hologram', depth: 3 },
    ];
    show(call('a', 'files__read', 'output-available', { output: { content } }));
    const result = within(screen.getByRole('group', { name: 'Result' }));
    expect(result.getByRole<HTMLImageElement>('img').src).toBe('data:image/png;base64,AAAA');
    expect(result.getAllByRole('link').map((link) => link.getAttribute('href'))).toEqual([
      'https://example.com/x',
    ]);
    expect(result.getByText('hologram')).toBeTruthy();
  });

  it('cuts what is long until all is wanted, and shows its end, too', async () => {
    const text = `begin${'x'.repeat(5000)}end`;
    const { user } = show(call('a', 'search_notes', 'output-available', { output: text }));
    await press(user, 'Details of search_notes');
    const result = within(screen.getByRole('group', { name: 'Result' }));
    expect(result.queryByText(text)).toBeNull();
    expect(result.getByText(/^begin/).textContent).toHaveLength(900);
    expect(result.getByText(/end$/).textContent).toHaveLength(500);
    expect(result.getByText(/Hidden here: 3608 characters of a line/)).toBeTruthy();
    await press(user, 'Show all');
    expect(result.getByText(text)).toBeTruthy();
  });

  it('says how long the server took', () => {
    const part = call('a', 'write_note', 'output-available', { output: 1 });
    render(
      <ToolCard
        part={part}
        chat={fakeChat()}
        message={{ ...messageOf(part), metadata: { calls: { a: { durationMs: 1432 } } } }}
      />,
    );
    expect(screen.getByText(/1\.4 s/)).toBeTruthy();
  });

  it('says why a call failed and how often it was tried, once the server says so', () => {
    const part = call('a', 'search', 'output-error', { errorText: 'Slow down.' });
    const card = (about?: object) => (
      <ToolCard
        part={part}
        chat={fakeChat()}
        message={{ ...messageOf(part), metadata: about && { calls: { a: about } } }}
      />
    );
    const { rerender } = render(card());
    expect(screen.queryByText(/too many requests/)).toBeNull();
    rerender(card({ durationMs: 5, errorType: 'rate_limit', attempts: 3, strategy: 'retry' }));
    expect(screen.getByRole('status').textContent).toBe('Failed: too many requests');
    expect(screen.getByText(/tried 3 times/)).toBeTruthy();
    rerender(card({ durationMs: 5, errorType: 'made_up' }));
    expect(screen.getByRole('status').textContent).toBe('Failed');
  });
});
