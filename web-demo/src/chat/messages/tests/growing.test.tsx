// A message that grows: the AI SDK's React chat shows the object that it goes on writing in, until the next
// chunk replaces it with a copy.

import { render, screen, within } from '@testing-library/react';
import { expect, it } from 'vitest';
import { copyOf, type Message } from '../../record/message';
import { call, fakeChat, messageOf, setUpPage } from '../../tests/page';
import { MessageList } from '../MessageList';

setUpPage();

const actions = { beginEdit: () => undefined, edit: () => undefined, regenerate: () => undefined };

/** Shows a message, lets it grow behind the page's back, and shows a copy of what has become of it. */
function grow(message: Message, change: (message: Message) => void) {
  const chat = fakeChat();
  const list = (messages: Message[]) => (
    <MessageList
      messages={messages}
      status="streaming"
      error={undefined}
      chat={chat}
      actions={actions}
      edited={undefined}
      onTryAgain={() => undefined}
    >
      nothing
    </MessageList>
  );
  const view = render(list([message]));
  change(message);
  view.rerender(list([copyOf(message)]));
}

it('has the words that were added to the object that is shown', () => {
  const text = { type: 'text' as const, text: 'Once upon', state: 'streaming' as const };
  grow({ id: 'm', role: 'assistant', parts: [text] }, () => (text.text += ' a time.'));
  expect(screen.getByText('Once upon a time.')).toBeTruthy();
});

it('has the state that a call has come to', () => {
  const part = call('a', 'search_notes', 'input-available', { input: { query: 'milk' } });
  grow(messageOf(part), () => Object.assign(part, { state: 'output-available', output: { notes: [] } }));
  expect(
    within(screen.getByRole('article', { name: 'Tool call search_notes' })).getByRole('status').textContent,
  ).toBe('Done');
});

it('has the duration that the end of the message brings', () => {
  const part = call('a', 'search_notes', 'output-available', {
    input: { query: 'milk' },
    output: { notes: [] },
  });
  grow(messageOf(part), (message) => (message.metadata = { calls: { a: { durationMs: 12 } } }));
  expect(screen.getByRole('article', { name: 'Tool call search_notes' }).textContent).toContain('12 ms');
});
