// The card of a call that other people decide about.

import i18next from 'i18next';
import { render, screen, waitFor } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { afterEach, describe, expect, it } from 'vitest';
import type { ApprovalDecision, CallStatus } from 'fermata-chat';
import zh from '../../../i18n/zh/cards';
import { call, fakeChat, messageOf, setUpPage, TOOLS } from '../../tests/page';
import { ToolCard } from '../ToolCard';

setUpPage();
afterEach(() => i18next.changeLanguage('en'));

const DECISION: ApprovalDecision = {
  by: ['group:finance', 'user:carol'],
  quorum: 2,
  notRequester: true,
  approvedBy: ['alice'],
  mayDecide: false,
};

function cardOf(decision: Partial<ApprovalDecision> | undefined, inputText = '{"amount":120}', me?: string) {
  const known = decision && { ...DECISION, ...decision };
  const status: CallStatus = {
    state: 'awaiting_approval',
    waitsFor: known?.mayDecide === false ? 'other_people' : 'person',
    ...(known && { decision: known }),
  };
  const part = call('a', 'refund', 'approval-requested', {
    input: JSON.parse(inputText) as unknown,
    approval: { id: 'x', descriptor: { tool: 'refund', inputText } },
  });
  const chat = { ...fakeChat(), callStatus: () => status };
  return <ToolCard part={part} message={messageOf(part)} chat={chat} tools={TOOLS} me={me} />;
}

const decides = () => document.querySelector('[data-deciders]')?.textContent;
const buttons = () =>
  screen.queryAllByRole('button', { name: /^(Approve|Edit|Deny)$/ }).map((one) => one.textContent);

describe('a call that other people decide about', () => {
  it('shows the deciders and the votes, and has no buttons', () => {
    render(cardOf({}));
    expect(screen.getByRole('status').textContent).toBe('Waiting for other people');
    expect(decides()).toBe('Waits for finance or carol · 1 of 2: alice approved');
    expect(buttons()).toEqual([]);
  });

  it.each([
    [
      { by: ['requester', 'group:a', 'channel:risk'], approvedBy: [] },
      'Waits for the person who asked for it, a or the service risk · 0 of 2 approved',
    ],
    [{ by: ['user:carol'], quorum: 1, approvedBy: [] }, 'Waits for carol'],
    [{ by: [], quorum: 1 }, 'Other people decide about this call.'],
    [
      { quorum: 3, approvedBy: ['alice', 'bob'] },
      'Waits for finance or carol · 2 of 3: alice and bob approved',
    ],
  ])('with %j, the card says: %s', (decision, words) => {
    render(cardOf(decision));
    expect(decides()).toBe(words);
  });

  it('shows the deciders and the votes in Chinese', async () => {
    i18next.addResourceBundle('zh', 'cards', zh);
    await i18next.changeLanguage('zh');
    render(cardOf({}));
    expect(decides()).toBe('等待finance或carol决定 · 需 2 人批准，已有 1 人：alice');
  });

  it('gets its buttons when the person may decide', () => {
    const { rerender } = render(cardOf({}));
    rerender(cardOf({ mayDecide: true }));
    expect(decides()).toBe('1 of 2: alice approved');
    expect(buttons()).toEqual(['Approve', 'Edit', 'Deny']);
  });
});

describe('a call that the person decides about alone', () => {
  it.each([undefined, { by: ['requester'], quorum: 1, approvedBy: [], mayDecide: true }])(
    'shows no deciders if the decision is %j',
    (decision) => {
      render(cardOf(decision));
      expect(decides()).toBeUndefined();
      expect(buttons()).toEqual(['Approve', 'Edit', 'Deny']);
    },
  );
});

it('a person who has approved a call can only deny it', () => {
  render(cardOf({ mayDecide: true, approvedBy: ['alice'] }, undefined, 'alice'));
  expect(decides()).toBe('1 of 2: you approved');
  expect(buttons()).toEqual(['Deny']);
});

it('a changed input is shown before the person can decide about it', async () => {
  const mine = { mayDecide: true };
  const { rerender } = render(cardOf(mine));
  rerender(cardOf(mine, '{"amount":900}'));
  expect(screen.getByRole('alert').textContent).toContain('The input has changed since it was shown to you.');
  expect(screen.getByLabelText('The difference, line by line').textContent).toMatch(/120.*900/s);
  expect(buttons()).toEqual([]);
  await userEvent.setup().click(screen.getByRole('button', { name: 'Decide about the new input' }));
  expect(buttons()).toEqual(['Approve', 'Edit', 'Deny']);
  expect(screen.queryByRole('alert')).toBeNull();
});

describe('the focus stays in the card', () => {
  const mine = { mayDecide: true };
  const inputOf = (amount: number) => `{"amount":${amount}}`;
  const hasFocus = () =>
    waitFor(() => {
      expect(screen.getByRole('article').contains(document.activeElement)).toBe(true);
    });

  it.each(['Approve', 'Edit', 'Deny'])('if the input changes while %s has it', async (name) => {
    const { rerender } = render(cardOf(mine));
    screen.getByRole('button', { name }).focus();
    rerender(cardOf(mine, inputOf(900)));
    await hasFocus();
  });

  it('if the input changes while it is edited here', async () => {
    const { rerender } = render(cardOf(mine));
    const user = userEvent.setup();
    await user.click(screen.getByRole('button', { name: 'Edit' }));
    await hasFocus();
    rerender(cardOf(mine, inputOf(900)));
    await hasFocus();
    expect(buttons()).toEqual([]);
    await user.click(screen.getByRole('button', { name: 'Decide about the new input' }));
    await hasFocus();
  });

  it('if the person approves an edited input, and others have to approve it as well', async () => {
    const { rerender } = render(cardOf({ ...mine, approvedBy: [] }, undefined, 'alice'));
    const user = userEvent.setup();
    await user.click(screen.getByRole('button', { name: 'Edit' }));
    await user.click(screen.getByRole('button', { name: 'Approve with these changes' }));
    rerender(cardOf({ ...mine, approvedBy: ['alice'] }, inputOf(900), 'alice'));
    await hasFocus();
    expect(buttons()).toEqual(['Deny']);
  });
});
