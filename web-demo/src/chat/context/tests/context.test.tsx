// How full the window is, and the summary of what is left out.

import { render, screen } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { beforeAll, expect, it } from 'vitest';
import { FermataError, type ChatSummary, type ContextUsage } from 'fermata-chat';
import { fakeChat, fixed, setUpPage } from '../../tests/page';
import { ContextButton } from '../ContextButton';
import { CompactionLine, SummaryLine } from '../SummaryLine';

setUpPage();
beforeAll(() => {
  // jsdom has no dialogs.
  HTMLDialogElement.prototype.showModal = function () {
    this.open = true;
  };
  HTMLDialogElement.prototype.close = function () {
    this.open = false;
  };
});

const summary: ChatSummary = {
  summary: {
    goal: 'Sell lamps.\nMany.',
    decisions: ['red ones'],
    done: [],
    todo: [],
    facts: ['over\ntwo lines'],
    entities: { port: '8080', 'a: b': 'http://\nlamps' },
    openQuestions: [],
    toolsUsed: [],
  },
  upTo: 'message-2',
  messages: 42,
  reason: 'every',
  model: 'm',
  createdAt: '2026-01-01T00:00:00Z',
};

const chatWith = (known: { usage?: ContextUsage; summary?: ChatSummary; messages?: number }) => ({
  ...fakeChat(),
  messages: Array.from({ length: known.messages ?? 4 }),
  contextUsage: fixed(known.usage),
  summary: fixed(known.summary),
});

it('measures from 60 % of the window on, if that is known', () => {
  const { container, rerender } = render(
    <ContextButton chat={chatWith({ usage: { inputTokens: 594, window: 1000 } })} />,
  );
  expect(container.textContent).toBe('Summary');
  rerender(<ContextButton chat={chatWith({ usage: { inputTokens: 594 } })} />);
  expect(container.textContent).toBe('Summary');
  rerender(<ContextButton chat={chatWith({ usage: { inputTokens: 724, window: 1000 } })} />);
  expect(screen.getByRole('meter').getAttribute('aria-valuenow')).toBe('72');
  expect(container.textContent).toBe('72 %');
});

it('stands after the last message that the summary covers, and nowhere else', () => {
  const chat = chatWith({ summary });
  const { container, rerender } = render(<SummaryLine chat={chat} after={[{ id: 'message-1' }]} />);
  expect(container.textContent).toBe('');
  rerender(<SummaryLine chat={chat} after={[{ id: 'message-1' }, { id: 'message-2' }]} />);
  expect(container.textContent).toBe('42 earlier messages, summarised');
});

it('is corrected in the fields that were changed only', async () => {
  const user = userEvent.setup();
  const chat = chatWith({ summary });
  render(<SummaryLine chat={chat} after={[{ id: 'message-2' }]} />);
  await user.click(screen.getByRole('button', { name: /summarised/ }));
  const save = await screen.findByRole('button', { name: 'Save' });
  expect(save).toHaveProperty('disabled', true);
  const names = screen.getByLabelText(/^Names and numbers/);
  await user.clear(names);
  await user.type(names, 'port: 9090{enter}a: b: http:// lamps{enter}');
  await user.click(save);
  expect(chat.correctSummary).toHaveBeenCalledExactlyOnceWith({
    ...summary.summary,
    entities: { port: '9090', 'a: b': 'http://\nlamps' },
  });
});

it('is not saved as long as two lines have the same name, and says so', async () => {
  const user = userEvent.setup();
  const chat = chatWith({ summary });
  render(<SummaryLine chat={chat} after={[{ id: 'message-2' }]} />);
  await user.click(screen.getByRole('button', { name: /summarised/ }));
  const save = await screen.findByRole('button', { name: 'Save' });
  const names = screen.getByLabelText(/^Names and numbers/);
  expect(names.getAttribute('aria-invalid')).toBe('false');
  await user.type(names, '{enter}port: 9090');
  expect(screen.getByRole('status').textContent).toMatch(/^Several lines have the same name: port\./);
  expect(names.getAttribute('aria-invalid')).toBe('true');
  expect(save).toHaveProperty('disabled', true);
  await user.click(save);
  expect(chat.correctSummary).not.toHaveBeenCalled();
  await user.type(names, '{enter}host：a{enter}host: b');
  expect(screen.getByRole('status').textContent).toContain('name: port, host.');
  await user.clear(names);
  await user.type(names, 'port: 8080, then 9090{enter}host: b');
  expect(screen.getByRole('status').textContent).toBe('');
  await user.click(save);
  expect(chat.correctSummary).toHaveBeenCalledExactlyOnceWith({
    ...summary.summary,
    entities: { port: '8080, then 9090', host: 'b' },
  });
});

it.each([
  [2, undefined, false],
  [3, undefined, true],
  [44, summary, false],
  [45, summary, true],
])('of %d messages, with the summary %o, it offers to compact: %s', async (messages, summary, isOffered) => {
  const user = userEvent.setup();
  render(<ContextButton chat={chatWith({ messages, ...(summary && { summary }) })} />);
  await user.click(screen.getByRole('button', { name: /^Summary/ }));
  expect(screen.queryByRole('button', { name: 'Compact now' }) !== null).toBe(isOffered);
});

it.each([
  [409, 'nothing_to_compact', /^There is nothing to summarise yet/],
  [409, 'run_open', /^An answer is being written/],
  [503, 'unavailable', /^No summary was written/],
  [503, 'unknown', /^No summary was written/],
  [422, 'invalid_request', /^In the words of the server\.$/],
])('says why it is not compacted after %d %s', async (status, code, words) => {
  const user = userEvent.setup();
  const chat = chatWith({});
  chat.compact.mockRejectedValueOnce(new FermataError(status, code, 'In the words of the server.'));
  render(<ContextButton chat={chat} />);
  await user.click(screen.getByRole('button', { name: /^Summary/ }));
  await user.type(await screen.findByLabelText(/^Focus on/), 'keep the port');
  await user.click(screen.getByRole('button', { name: 'Compact now' }));
  expect(chat.compact).toHaveBeenCalledExactlyOnceWith('keep the port');
  expect(screen.getByRole('alert').textContent).toMatch(words);
});

it('tells what a run has left out, and announces it only while it is under way', () => {
  const data = (state: string) => ({ state, messages: 3, reason: 'size' });
  const { container, rerender } = render(<CompactionLine data={data('running')} isGrowing />);
  expect(screen.getByRole('status').textContent).toBe('Summarising 3 earlier messages…');
  rerender(<CompactionLine data={data('failed')} isGrowing />);
  expect(screen.queryByRole('status')).toBeNull();
  expect(container.textContent).toBe(
    '3 earlier messages were left out without a summary, so that the chat fits the model.',
  );
  rerender(<CompactionLine data={data('done')} isGrowing={false} />);
  expect(screen.queryByRole('status')).toBeNull();
  // The run was stopped while a summary was written.
  rerender(<CompactionLine data={data('running')} isGrowing={false} />);
  expect(container.textContent).toBe('');
});
