// The tools of the page, as a person meets them in their cards.

import { render, screen, waitFor } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { ToolCard } from '../../chat/calls/ToolCard';
import { call, fakeChat, messageOf, setUpPage } from '../../chat/tests/page';
import { FermataError } from 'fermata-chat';
import { browserTools } from '../index';
import { readFile } from '../pick_file';
import { records, write } from '../records';
import { readChart } from '../show_chart';

setUpPage();
afterEach(() => {
  vi.unstubAllGlobals();
});

function ask(name: string, input: object, chat = fakeChat()) {
  const part = call('call_1', name, 'input-available', { input });
  const view = render(<ToolCard part={part} message={messageOf(part)} chat={chat} />);
  return { chat, view, user: userEvent.setup() };
}

const outputs = (chat: ReturnType<typeof fakeChat>) =>
  chat.addToolOutput.mock.calls.map(([answer]) => answer);
const press = async (user: ReturnType<typeof userEvent.setup>, name: string) =>
  user.click(screen.getByRole('button', { name }));

it.each(Object.keys(browserTools))(
  '%s has a title for people, and an icon that says where it runs',
  (name) => {
    ask(name, {});
    const heading = screen.getAllByRole('heading', { level: 2 })[0];
    expect(heading?.querySelector('bdi')?.textContent).toMatch(/^[A-Z]/);
    expect(screen.getByRole('img', { name: 'in this page' })).toBeTruthy();
  },
);

it('a tool of an MCP server has no title of this page, even with the name of one', () => {
  const part = call('call_1', 'show_chart', 'input-available', { toolMetadata: { server: 'charts' } });
  render(<ToolCard part={part} message={messageOf(part)} chat={fakeChat()} />);
  const heading = screen.getAllByRole('heading', { level: 2 })[0];
  expect(heading?.textContent).toBe('show_chartMCP server charts');
});

describe('create_record', () => {
  const input = { collection: 'contacts', title: 'Ada', data: { born: 1815 } };

  it('writes nothing before the person says so', async () => {
    const { user, chat } = ask('create_record', input);
    expect(records()).toEqual([]);
    await press(user, "Don't save");
    expect(records()).toEqual([]);
    expect(outputs(chat)).toMatchObject([{ toolCallId: 'call_1', state: 'output-error' }]);
  });

  it('writes once, however often it is pressed, also in two tabs and after a reload', async () => {
    const { user, chat, view } = ask('create_record', input);
    await user.dblClick(screen.getByRole('button', { name: 'Save' }));
    view.unmount();
    const other = ask('create_record', input);
    await press(other.user, 'Save');
    expect(records()).toMatchObject([
      { id: 'call_1', collection: 'contacts', title: 'Ada', data: { born: 1815 } },
    ]);
    expect(outputs(chat)).toHaveLength(1);
    expect(outputs(other.chat)).toEqual(outputs(chat));
    expect(outputs(chat)[0]?.output).toMatchObject({ created: true, id: 'call_1' });
  });

  it('tells of what another tab has written, also where this one says no', async () => {
    const { user, chat } = ask('create_record', input);
    write('call_1', input);
    await press(user, "Don't save");
    expect(outputs(chat)[0]?.output).toMatchObject({ created: true, id: 'call_1' });
  });

  it('takes back what it wrote where the call was answered otherwise meanwhile', async () => {
    const chat = fakeChat();
    chat.addToolOutput.mockRejectedValue(new FermataError(409, 'already_answered', 'x'));
    const { user } = ask('create_record', input, chat);
    await press(user, 'Save');
    await waitFor(() => {
      expect(records()).toEqual([]);
    });
    expect(screen.getByRole('alert').textContent).toContain('answered elsewhere');
  });

  it('keeps what it wrote while the server cannot be reached, and answers the same again', async () => {
    const chat = fakeChat();
    chat.addToolOutput.mockRejectedValueOnce(new TypeError('Failed to fetch'));
    const { user } = ask('create_record', input, chat);
    await press(user, 'Save');
    expect((await screen.findByRole('alert')).textContent).toContain('could not be reached');
    await press(user, 'Save');
    expect(records()).toHaveLength(1);
    expect(outputs(chat)[0]).toEqual(outputs(chat)[1]);
  });

  it('lists what is kept, and forgets it', async () => {
    write('call_1', input);
    write('call_2', { ...input, title: 'Grace' });
    const part = call('call_1', 'create_record', 'output-available', { input, output: { created: true } });
    render(<ToolCard part={part} message={messageOf(part)} chat={fakeChat()} />);
    await press(userEvent.setup(), 'Forget Ada');
    expect(records().map(({ title }) => title)).toEqual(['Grace']);
    expect(screen.getByText('Not in this browser (any more)')).toBeTruthy();
  });
});

describe('ask_question', () => {
  it('warns of what looks like a secret', () => {
    ask('ask_question', { question: 'Who are you?', fields: { properties: { apiKey: { type: 'string' } } } });
    expect(screen.getByRole('note').textContent).toBe(
      'This seems to ask for a secret: apiKey. What you enter goes to the model, and stays in this chat.',
    );
  });

  it('takes a choice', async () => {
    const { chat, user } = ask('ask_question', { question: 'Which?', options: ['a', 'b', 'a'] });
    await press(user, 'b');
    expect(outputs(chat)).toEqual([{ tool: 'ask_question', toolCallId: 'call_1', output: { answer: 'b' } }]);
  });

  it('takes a line, by the Enter key', async () => {
    const { chat, user } = ask('ask_question', { question: 'Which?' });
    await user.type(screen.getByRole('textbox', { name: 'Which?' }), 'this one{Enter}');
    expect(outputs(chat)).toEqual([
      { tool: 'ask_question', toolCallId: 'call_1', output: { answer: 'this one' } },
    ]);
  });

  it('takes a form that fits', async () => {
    const { chat, user } = ask('ask_question', {
      question: 'Who?',
      fields: { properties: { name: { type: 'string' } }, required: ['name'] },
    });
    await press(user, 'Send');
    expect(chat.addToolOutput).not.toHaveBeenCalled();
    await user.type(screen.getByLabelText('name'), 'Ada');
    await press(user, 'Send');
    expect(outputs(chat)).toEqual([
      { tool: 'ask_question', toolCallId: 'call_1', output: { answers: { name: 'Ada' } } },
    ]);
  });

  it('asks nothing any more once it is answered elsewhere', () => {
    const part = call('call_1', 'ask_question', 'output-available', {
      input: { question: 'Which?', options: ['a'] },
      output: { answer: 'a' },
    });
    render(<ToolCard part={part} message={messageOf(part)} chat={fakeChat()} />);
    expect(screen.queryByRole('button', { name: 'a' })).toBeNull();
  });

  it('waits for the others of its step', () => {
    const part = call('call_1', 'ask_question', 'input-streaming', {
      input: { question: 'Which?', options: ['a'] },
    });
    const message = messageOf(part, call('b', 'write_note', 'approval-requested'));
    render(<ToolCard part={part} message={message} chat={fakeChat()} />);
    expect(screen.queryByRole('button', { name: 'a' })).toBeNull();
  });
});

describe('pick_file', () => {
  it('gives the text of a text file', async () => {
    const { chat, user } = ask('pick_file', { purpose: 'The report' });
    await user.upload(
      document.querySelector('input[type=file]') as HTMLInputElement,
      new File(['a,b\n1,2'], 'r.csv', { type: 'text/csv' }),
    );
    await waitFor(() => {
      expect(outputs(chat)[0]?.output).toEqual({
        name: 'r.csv',
        size: 7,
        type: 'text/csv',
        text: 'a,b\n1,2',
      });
    });
  });

  it('reads the beginning of a long text, without half a character at its end', async () => {
    const picked = await readFile(new File(['a' + '字'.repeat(50_000)], 'long.txt', { type: 'text/plain' }));
    expect(picked.truncated).toBe(true);
    expect(picked.text).toBe('a' + '字'.repeat(33_333));
  });

  it('gives a small picture as a data URL, and of other files no more than what they are', async () => {
    expect(await readFile(new File([new Uint8Array([1, 2])], 'p.png', { type: 'image/png' }))).toMatchObject({
      dataUrl: 'data:image/png;base64,AQI=',
    });
    expect(await readFile(new File([new Uint8Array(300_000)], 'p.png', { type: 'image/png' }))).toEqual({
      name: 'p.png',
      size: 300_000,
      type: 'image/png',
    });
    expect(await readFile(new File(['a\0b'], 'x.txt', { type: 'text/plain' }))).not.toHaveProperty('text');
    expect(await readFile(new File(['PK'], 'x.zip', { type: 'application/zip' }))).not.toHaveProperty('text');
  });
});

describe('get_location', () => {
  const locate = () =>
    browserTools['get_location']?.execute?.({}, { toolCallId: 'a', signal: new AbortController().signal });

  it('tells where the browser is', async () => {
    const getCurrentPosition = (found: (position: object) => void) => {
      found({ coords: { latitude: 1, longitude: 2, accuracy: 3, speed: 4 } });
    };
    vi.stubGlobal('navigator', { geolocation: { getCurrentPosition } });
    expect(await locate()).toEqual({ latitude: 1, longitude: 2, accuracy: 3 });
  });

  it('says that it was not allowed', async () => {
    const getCurrentPosition = (_: unknown, fail: (error: object) => void) => {
      fail({ code: 1, PERMISSION_DENIED: 1, TIMEOUT: 3 });
    };
    vi.stubGlobal('navigator', { geolocation: { getCurrentPosition } });
    await expect(locate()).rejects.toThrow('did not allow');
  });

  it('says that there is no such thing here', () => {
    vi.stubGlobal('navigator', {});
    expect(locate).toThrow('needs HTTPS or localhost');
  });
});

it('shows a chart whose numbers fit its labels, and says what is wrong with others', () => {
  const chart = { title: 'T', kind: 'bar', labels: ['a', 'b'], series: [{ name: 's', values: [1, 2] }] };
  expect(readChart(chart)).toEqual(chart);
  expect(readChart({ ...chart, series: [{ name: 's', values: [1] }] })).toBe(
    'Every series needs 2 numbers, one for each label.',
  );
  expect(readChart({ ...chart, kind: 'radar' })).toContain('kind');
});

it('gives every tool a description and the schema of an object', () => {
  for (const tool of Object.values(browserTools))
    expect([(tool.description ?? '').length > 20, tool.inputSchema]).toMatchObject([
      true,
      { type: 'object' },
    ]);
});
