// What a page says in its own language in place of the server's English.

import i18next from 'i18next';
import { render, screen } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { afterEach, describe, expect, it } from 'vitest';
import type { NoOutput, ReasonCode } from 'fermata-chat';
import zh from '../../../i18n/zh/cards';
import { call, fakeChat, fixed, messageOf, setUpPage, TOOLS, withoutOutput } from '../../tests/page';
import { whyWords } from '../asked';
import { Gate } from '../Gate';
import { ToolCard } from '../ToolCard';

setUpPage();
afterEach(() => i18next.changeLanguage('en'));

const inChinese = async () => {
  i18next.addResourceBundle('zh', 'cards', zh);
  await i18next.changeLanguage('zh');
};

const ENGLISH = 'Cancelled: the run was stopped before the call had a result.';

function showCard(noOutput?: NoOutput, errorText = ENGLISH) {
  const part = call('a', 'write_note', 'output-error', { errorText });
  const message = messageOf(part);
  const told = noOutput === undefined ? message : withoutOutput(message, 'a', noOutput);
  return render(<ToolCard part={part} message={told} chat={fakeChat()} tools={TOOLS} />);
}

describe('a call that was cancelled', () => {
  it.each(['expired', 'by_person', 'stopped', 'superseded', 'run_ended', 'not_first', 'not_chosen'])(
    'says in both languages that it was %s',
    async (code) => {
      const { unmount } = showCard({ state: 'cancelled', code });
      const words = i18next.getFixedT('en', 'cards')(`cancelled.${code}` as 'cancelled.stopped');
      expect(screen.getByText(words)).toBeTruthy();
      expect(screen.queryByText(ENGLISH)).toBeNull();
      unmount();
      await inChinese();
      showCard({ state: 'cancelled', code });
      expect(screen.getByText(zh.cancelled[code as keyof typeof zh.cancelled])).toBeTruthy();
    },
  );

  it('has the words that the model was told among its details', async () => {
    showCard({ state: 'cancelled', code: 'stopped' });
    await userEvent.setup().click(screen.getByRole('button', { name: 'Details of write_note' }));
    expect(screen.getByText('What the model was told')).toBeTruthy();
    expect(screen.getByText(ENGLISH)).toBeTruthy();
  });

  it('shows the last partial result apart from the error', () => {
    showCard({ state: 'error', code: 'timeout', lastOutput: '3 of 7 pages' }, 'It took too long.');
    expect(screen.getByText('It took too long.')).toBeTruthy();
    expect(screen.getByRole('group', { name: 'Last partial result' }).textContent).toContain('3 of 7 pages');
  });

  it('shows the words of the server if its code is one of a later version', () => {
    showCard({ state: 'cancelled', code: 'evicted' }, 'Cancelled: it was evicted.');
    expect(screen.getByText('Cancelled: it was evicted.')).toBeTruthy();
    expect(screen.getByText('Cancelled')).toBeTruthy();
  });

  it('is drawn again when the message says why', () => {
    const part = call('a', 'write_note', 'output-error', { errorText: ENGLISH });
    const chat = fakeChat();
    const { rerender } = render(<ToolCard part={part} message={messageOf(part)} chat={chat} tools={TOOLS} />);
    expect(screen.getByText('Failed')).toBeTruthy();
    const told = withoutOutput(messageOf(part), 'a', { state: 'cancelled', code: 'stopped' });
    rerender(<ToolCard part={part} message={told} chat={chat} tools={TOOLS} />);
    expect(screen.getByText('Cancelled')).toBeTruthy();
  });
});

it('says why a call was denied in the words of whoever did, without the prefix for the model', () => {
  showCard({ state: 'cancelled', code: 'denied', reason: 'at most nine' }, 'Denied: at most nine');
  expect(screen.getByText('Because: at most nine')).toBeTruthy();
  expect(screen.queryByText(/Denied: /)).toBeNull();
});

it('shows the words of a tool that has failed, which are its own', async () => {
  await inChinese();
  showCard({ state: 'error', code: 'timeout' }, 'It took longer than 60 s.');
  expect(screen.getByText('It took longer than 60 s.')).toBeTruthy();
});

describe('why a person is asked', () => {
  const words = (language: string, reasonCode: ReasonCode | undefined, more: object = {}) =>
    whyWords(
      { reason: 'In English.', ...(reasonCode && { reasonCode }), ...more },
      'write_note',
      i18next.getFixedT(language, 'cards'),
    );

  it('is said in the language of the page where Fermata asks', async () => {
    await inChinese();
    for (const code of ['chain', 'tool_changed', 'memory_writes', 'memory_slot', 'retry'] as const) {
      expect(words('zh', code)).not.toContain('English');
      expect(words('en', code)).not.toContain('English');
      expect(words('zh', code)).toMatch(/\p{Script=Han}/u);
    }
    expect(words('zh', 'tool_changed')).toContain('write_note');
  });

  it('has the words of others in it', () => {
    const read = { reasonDetail: 'https://example.com/page' };
    expect(words('en', 'memory_writes', read)).toContain('was read: https://example.com/page');
    expect(words('en', 'retry', { reasonDetail: 'Look at it.' })).toMatch(/^Look at it\. The call failed/);
  });

  it('is what a rule or a tool says', () => {
    for (const code of ['rule', 'tool', 'default', undefined] as const)
      expect(words('zh', code)).toBe('In English.');
  });

  it('stands in the card, from the request itself or from the status of the call', () => {
    const descriptor = { tool: 'write_note', inputText: '{}', reasonCode: 'chain' };
    const part = call('a', 'write_note', 'approval-requested', {
      approval: { id: 'x', requestReason: 'it is not the first call of the turn', descriptor },
    });
    const chat = fakeChat();
    const { unmount } = render(<ToolCard part={part} message={messageOf(part)} chat={chat} tools={TOOLS} />);
    expect(screen.getByText('It is not the first call of the turn.')).toBeTruthy();
    unmount();
    const older = call('a', 'write_note', 'approval-requested');
    const status = { state: 'awaiting_approval', waitsFor: 'person', reasonCode: 'chain' } as const;
    render(
      <ToolCard
        part={older}
        message={messageOf(older)}
        chat={{ ...chat, callStatus: () => status }}
        tools={TOOLS}
      />,
    );
    expect(screen.getByText('It is not the first call of the turn.')).toBeTruthy();
  });
});

describe('the gate', () => {
  const message = messageOf(
    call('a', 'write_note', 'approval-requested'),
    call('b', 'write_note', 'approval-requested'),
  );
  const closed = 'Nothing runs until you have decided on every call.';
  const progressive = 'Each call runs as soon as you have decided on it.';

  it.each([
    [true, closed, progressive],
    [undefined, progressive, closed],
  ])('says what it does as the server says it: closed %s', (gateClosed, said, unsaid) => {
    const status = { stage: 'tool_call', requiresConfirm: true, ...(gateClosed && { gateClosed }) } as const;
    render(<Gate message={message} chat={{ ...fakeChat(), runStatus: fixed(status) }} />);
    expect(screen.getByText(said)).toBeTruthy();
    expect(screen.queryByText(unsaid)).toBeNull();
  });

  it('says nothing of it before the server does', () => {
    render(<Gate message={message} chat={fakeChat()} />);
    expect(screen.getByText('2 decisions left')).toBeTruthy();
    expect([screen.queryByText(closed), screen.queryByText(progressive)]).toEqual([null, null]);
  });
});
