// What an answer says of parts that the provider of the model refused, and how a message is deleted.

import { fireEvent, render, screen, waitFor, within } from '@testing-library/react';
import { expect, it, vi } from 'vitest';
import { fakeChat, setUpPage } from '../../tests/page';
import { DeleteMessage } from '../DeleteMessage';
import { RefusedParts } from '../RefusedParts';

setUpPage();

it('names each refused part, with the reason and a way to delete its message', async () => {
  const chat = fakeChat();
  render(
    <RefusedParts
      chat={chat}
      parts={[
        { type: 'file', model: 'm', filename: 'a.png', in: 'u1', reason: 'image exceeds 5 MB' },
        { type: 'tool-result', model: 'm', toolCallId: 'c' },
      ]}
    />,
  );
  const [file, result] = screen.getAllByRole('listitem') as [HTMLElement, HTMLElement];
  expect(file.textContent).toContain('refused “a.png”');
  expect(file.textContent).toContain('image exceeds 5 MB');
  expect(within(result).queryByRole('button')).toBeNull();
  fireEvent.click(within(file).getByRole('button', { name: 'Delete the message' }));
  expect(chat.deleteMessage).not.toHaveBeenCalled();
  fireEvent.click(screen.getByRole('button', { name: 'Delete' }));
  await waitFor(() => {
    expect(screen.queryByRole('dialog')).toBeNull();
  });
  expect(chat.deleteMessage).toHaveBeenCalledWith('u1');
});

it('keeps the dialog and says why if a message cannot be deleted', async () => {
  const chat = fakeChat();
  vi.mocked(chat.deleteMessage).mockRejectedValue(new Error('A run is open.'));
  render(<DeleteMessage chat={chat} messageId="u1" />);
  fireEvent.click(screen.getByRole('button', { name: 'Delete message' }));
  fireEvent.click(screen.getByRole('button', { name: 'Delete' }));
  expect((await screen.findByRole('alert')).textContent).toContain('A run is open.');
});
