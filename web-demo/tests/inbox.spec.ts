// The inbox: its live list, answers, earlier decisions and links. It never shows that all is done while an approval may wait.

import type { Approval } from 'fermata-chat';
import { approval, expect, test } from './people';
import { gate, seriousViolations } from './world';

const FAILED_REQUEST = /Failed to load resource/;

const refund = (id: string, amount: number, more: Partial<Approval> = {}) =>
  approval(id, { input: { order: 7, amount }, description: `Refund ${amount} €`, ...more });
const mail = (id: string, more: Partial<Approval> = {}) =>
  approval(id, {
    tool: 'send_mail',
    title: 'Send a mail',
    description: `Mail ${id}`,
    input: { to: `${id}@example.com` },
    ...more,
  });
/** A decision that two people have to make. */
const two = { ...approval('x').decision, quorum: 2 };

const posts = (requests: string[]) =>
  requests.filter((request) => request.startsWith('POST')).map((request) => request.split(' ')[1]);

test('shows waiting calls and the decisions of other people', async ({ people, inbox }) => {
  people.approvals.put(refund('a', 120));
  await inbox.open();
  await expect(inbox.card('Refund 120 €')).toContainText('Requested by dave');
  await expect(inbox.card('Refund 120 €')).toContainText('Refunds over 100 € need finance.');
  await expect(inbox.page).toHaveTitle('(1) Inbox');
  people.approvals.put(refund('b', 300));
  await expect(inbox.page).toHaveTitle('(2) Inbox');
  people.approvals.settle('a', 'bob', 'denied', 'a duplicate');
  await expect(inbox.card('Refund 120 €')).toContainText('Denied by bob at 12:03');
  await expect(inbox.card('Refund 120 €')).toContainText('a duplicate');
  await expect(inbox.page).toHaveTitle('(1) Inbox');
  await inbox.press('Remove what no longer waits for you');
  await expect(inbox.cards).toHaveCount(1);
});

test('an approval counts for the input that was shown', async ({ people, inbox }) => {
  const shown = refund('a', 120);
  people.approvals.put(shown);
  await inbox.open();
  await inbox.press('Approve', inbox.card('Refund 120 €'));
  await expect(inbox.card('Refund 120 €')).toContainText('Approved by you');
  await expect(inbox.page.getByText('All done')).toBeVisible();
  await expect(inbox.page).toHaveTitle('Inbox');
  expect(people.approvals.requests.filter((request) => request.startsWith('POST'))).toEqual([
    `POST /api/approvals/a {"approved":true,"inputHash":"${shown.inputHash}"}`,
  ]);
});

test('after the first of two approvals, the call waits for other people', async ({ people, inbox }) => {
  people.approvals.put(refund('a', 120, { decision: { ...two, by: ['group:finance', 'user:carol'] } }));
  await inbox.open();
  const card = inbox.card('Refund 120 €');
  await expect(card).toContainText('0 of 2 approved');
  await inbox.press('Approve', card);
  await expect(card).toContainText('Waits for finance or carol · 1 of 2: you approved');
  await expect(card.getByRole('button', { name: 'Approve', exact: true })).toBeHidden();
  await expect(inbox.page.getByText('All done')).toBeVisible();
  await inbox.press('Deny', card);
  await inbox.press('Deny', card);
  await expect(card).toContainText('Denied by you');
});

test('the input can be edited before it is approved', async ({ people, inbox }) => {
  people.approvals.put(refund('a', 120));
  await inbox.open();
  const card = inbox.cards.first();
  await inbox.press('Edit', card);
  await card.getByRole('textbox', { name: /^amount/i }).fill('80');
  await inbox.press('Approve with these changes', card);
  await expect(card).toContainText('Approved by you');
  expect(people.approvals.requests.at(-1)).toContain('"input":{"order":7,"amount":80}');
});

test('it does not say that all is done without a list and a connection', async ({ people, inbox }) => {
  people.mayLog.push(FAILED_REQUEST);
  const list = gate();
  people.approvals.instead['GET /api/approvals?'] = async () => {
    await list.opened;
    return undefined;
  };
  await inbox.open();
  const done = inbox.page.getByText('All done');
  await expect(inbox.page.getByText('Loading…')).toBeVisible();
  await expect(done).toBeHidden();
  list.open();
  await expect(done).toBeVisible();
  people.approvals.instead = { 'GET /api/approvals/events': () => new Response('', { status: 503 }) };
  people.approvals.breakStreams();
  await expect(inbox.page.getByText('There is no connection to the server')).toBeVisible();
  await expect(done).toBeHidden();
  people.approvals.instead = {
    'GET /api/approvals?': () =>
      new Response('{"code":"internal","detail":"The database is away."}', { status: 500 }),
  };
  await expect(inbox.page.getByRole('alert')).toContainText(
    'The list could not be read: The database is away.',
  );
  await expect(done).toBeHidden();
  people.approvals.instead = {};
  await inbox.press('Try again');
  await expect(done).toBeVisible();
});

test('after a lost connection, the list has the calls that came meanwhile', async ({ people, inbox }) => {
  people.approvals.put(refund('a', 120));
  await inbox.open();
  await expect(inbox.cards).toHaveCount(1);
  people.approvals.putUnheard(refund('b', 300));
  people.approvals.breakStreams();
  await expect(inbox.card('Refund 300 €')).toBeVisible();
});

test.describe('a refused answer', () => {
  test.beforeEach(({ people }) => {
    people.mayLog.push(FAILED_REQUEST);
  });

  test('shows the outcome if it is late', async ({ people, inbox }) => {
    people.approvals.put(refund('a', 120));
    await inbox.open();
    await expect(inbox.cards).toHaveCount(1);
    const settled = { by: 'bob', at: '2026-03-02T11:03:00Z', channel: 'slack' };
    people.approvals.putUnheard(refund('a', 120, { state: 'denied', settled }));
    await inbox.press('Approve', inbox.cards.first());
    await expect(inbox.cards.first().getByRole('alert')).toHaveText(
      /^Denied by bob at 12:03 · Your answer came too late\.$/,
    );
    await expect(inbox.cards.first().getByRole('button', { name: 'Approve', exact: true })).toBeHidden();
  });

  test('shows the new input if the input has changed, and asks again', async ({ people, inbox }) => {
    people.approvals.put(refund('a', 120));
    await inbox.open();
    const card = inbox.cards.first();
    await expect(card).toBeVisible();
    people.approvals.putUnheard(refund('a', 900));
    await inbox.press('Approve', card);
    await expect(card.getByRole('alert')).toContainText('The input has changed since it was shown to you.');
    await expect(card.getByLabel('The difference, line by line')).toContainText('900');
    await expect(card.getByRole('button', { name: 'Approve', exact: true })).toBeHidden();
    await inbox.press('Decide about the new input', card);
    await inbox.press('Approve', card);
    await expect(card).toContainText('Approved by you');
  });

  test('shows the deciders if other people decide', async ({ people, inbox }) => {
    people.approvals.put(refund('a', 120));
    await inbox.open();
    const card = inbox.cards.first();
    await expect(card).toBeVisible();
    const decision = { ...approval('a').decision, by: ['user:carol'], approvedBy: ['alice'] };
    people.approvals.putUnheard(refund('a', 120, { decision }));
    await inbox.press('Deny', card);
    await inbox.press('Deny', card);
    await expect(card.getByRole('alert')).toContainText('you may not decide about this call any more');
    await expect(card).toContainText('Waits for carol');
    await expect(card.getByRole('button', { name: 'Deny', exact: true })).toBeHidden();
  });

  test('says that the call is gone if it does not exist', async ({ people, inbox }) => {
    people.approvals.put(refund('a', 120));
    await inbox.open();
    await expect(inbox.cards).toHaveCount(1);
    people.approvals.remove('a');
    await inbox.press('Approve', inbox.cards.first());
    await expect(inbox.cards.first().getByRole('alert')).toHaveText(
      'This call does not exist any more, or you may not see it any more.',
    );
    await expect(inbox.page).toHaveTitle('Inbox');
  });
});

test('keys move, open, approve and deny', async ({ people, inbox }) => {
  for (const one of [refund('a', 120), refund('b', 300), refund('c', 500)]) people.approvals.put(one);
  await inbox.open();
  await expect(inbox.cards).toHaveCount(3);
  const { keyboard } = inbox.page;
  await keyboard.press('j');
  await expect(inbox.cards.nth(0)).toBeFocused();
  await keyboard.press('j');
  await keyboard.press('j');
  await keyboard.press('j');
  await expect(inbox.cards.nth(2)).toBeFocused();
  await keyboard.press('k');
  await expect(inbox.cards.nth(1)).toBeFocused();
  const details = inbox.cards.nth(1).getByRole('button', { name: 'Details of refund' });
  await expect(details).toHaveAttribute('aria-expanded', 'true');
  await keyboard.press('Enter');
  await expect(details).toHaveAttribute('aria-expanded', 'false');
  await keyboard.press('d');
  await expect(inbox.cards.nth(1).getByLabel('Why not? (optional)')).toBeFocused();
  await keyboard.type('jka');
  await keyboard.press('Enter');
  await expect(inbox.cards.nth(1)).toContainText('Denied by you');
  await expect(inbox.cards.nth(1)).toContainText('Because: jka');
  await keyboard.press('k');
  await keyboard.press('a');
  await expect(inbox.cards.nth(0)).toContainText('Approved by you');
  expect(posts(people.approvals.requests)).toEqual(['/api/approvals/b', '/api/approvals/a']);
});

test('several calls are listed with their exact inputs before they are denied, each with its outcome', async ({
  people,
  inbox,
}) => {
  people.mayLog.push(FAILED_REQUEST);
  const exact = '{"order":12345678901234567890,"amount":1}';
  people.approvals.put(refund('a', 120));
  people.approvals.put(refund('b', 300, { inputText: exact }));
  people.approvals.put(mail('c'));
  await inbox.open();
  await expect(inbox.cards).toHaveCount(3);
  await inbox.page.getByRole('checkbox', { name: 'Select all' }).check();
  await inbox.page.getByRole('checkbox', { name: 'Select send_mail of dave' }).uncheck();
  await inbox.press('Deny all');
  const dialog = inbox.page.getByRole('dialog', { name: 'Deny 2 calls?' });
  await expect(dialog.getByRole('listitem')).toHaveCount(2);
  await expect(dialog.getByRole('listitem').nth(1)).toContainText(exact);
  expect(posts(people.approvals.requests)).toEqual([]);
  await dialog.getByLabel('Why not? (optional)').fill('not this month');
  const settled = { by: 'bob', at: '2026-03-02T11:03:00Z', channel: 'slack' };
  people.approvals.putUnheard(refund('b', 300, { inputText: exact, state: 'approved', settled }));
  await inbox.press('Deny 2', dialog);
  await expect(dialog.getByRole('listitem').nth(0)).toContainText('Denied');
  await expect(dialog.getByRole('listitem').nth(1).getByRole('alert')).toHaveText('Approved by bob at 12:03');
  await inbox.press('Close', dialog);
  await expect(inbox.card('Refund 120 €')).toContainText('not this month');
  await expect(inbox.page).toHaveTitle('(1) Inbox');
  expect(posts(people.approvals.requests)).toEqual(['/api/approvals/a', '/api/approvals/b']);
});

test('answers that did not arrive can be sent again', async ({ people, inbox }) => {
  people.mayLog.push(FAILED_REQUEST);
  people.approvals.put(refund('a', 120));
  people.approvals.put(refund('b', 300));
  people.approvals.instead['POST /api/approvals/b'] = () =>
    new Response('{"code":"internal","detail":"The database is away."}', { status: 500 });
  await inbox.open();
  await inbox.page.getByRole('checkbox', { name: 'Select all' }).check();
  await inbox.press('Approve all');
  const dialog = inbox.page.getByRole('dialog');
  await inbox.press('Approve 2', dialog);
  await expect(dialog.getByRole('alert')).toHaveText('The database is away.');
  people.approvals.instead = {};
  await inbox.press('Approve 1', dialog);
  await inbox.press('Close', dialog);
  await expect(inbox.page.getByText('All done')).toBeVisible();
});

test('a filter shows the calls of one tool, and the number of others that wait', async ({
  people,
  inbox,
}) => {
  people.approvals.put(refund('a', 120));
  people.approvals.put(mail('c'));
  await inbox.open();
  await inbox.page.getByRole('combobox', { name: 'Tool' }).selectOption({ label: 'send_mail (1)' });
  await expect(inbox.cards).toHaveCount(1);
  await expect(inbox.page).toHaveTitle('(2) Inbox');
  await inbox.press('Approve', inbox.cards.first());
  await expect(
    inbox.page.getByText('No call of send_mail waits for you. 1 call of another tool does.'),
  ).toBeVisible();
  await expect(inbox.page.getByText('All done')).toBeHidden();
});

test('a link to an approval leads to its card', async ({ people, inbox }) => {
  for (let number = 1; number <= 12; number++) people.approvals.put(refund(`a${number}`, number));
  people.approvals.put(refund('b', 900));
  people.approvals.settle('b', 'bob', 'denied');
  await inbox.open('?approval=a9');
  await expect(inbox.card('Refund 9 €')).toBeFocused();
  await expect(inbox.card('Refund 9 €').getByRole('button', { name: 'Details of refund' })).toBeInViewport();
  await inbox.open('?approval=b');
  await expect(inbox.card('Refund 900 €')).toBeFocused();
  await expect(inbox.card('Refund 900 €')).toContainText('Denied by bob at 12:03');
  people.mayLog.push(FAILED_REQUEST);
  await inbox.open('?approval=c');
  await expect(inbox.page.getByRole('alert')).toHaveText(
    'This link leads to a call that does not exist any more, or that you may not see.',
  );
  await expect(inbox.cards).toHaveCount(12);
});

test('earlier decisions come page by page, newest first', async ({ people, inbox }) => {
  for (let number = 1; number <= 25; number++) {
    people.approvals.put(refund(`a${number}`, number));
    people.approvals.settle(`a${number}`, number % 2 === 0 ? 'alice' : 'bob', 'approved');
  }
  await inbox.open();
  await inbox.press('Decided');
  await expect(inbox.cards).toHaveCount(20);
  await expect(inbox.cards.first()).toContainText('Refund 25 €');
  await expect(inbox.cards.first()).toContainText('Approved by bob');
  await inbox.press('Show older ones');
  await expect(inbox.cards).toHaveCount(25);
  await expect(inbox.cards.last()).toContainText('Refund 1 €');
  await expect(inbox.page.getByRole('button', { name: 'Show older ones' })).toBeHidden();
});

test('only the owner of a chat sees its title', async ({ people, inbox }) => {
  const decision = { ...approval('a').decision, by: ['requester', 'group:finance'], notRequester: false };
  const chat = { id: 'c1', title: 'Order 7' };
  people.approvals.put(refund('a', 120, { decision, chat, requestedBy: 'alice' }));
  people.approvals.put(refund('b', 300, { decision, chat }));
  await inbox.open();
  await expect(inbox.card('Refund 120 €').getByRole('link', { name: 'Order 7' })).toHaveAttribute(
    'href',
    '/?chat=c1',
  );
  await expect(inbox.card('Refund 300 €').getByRole('link')).toHaveCount(0);
});

for (const { name, use } of [
  { name: 'by day', use: {} },
  { name: 'by night', use: { colorScheme: 'dark' } },
  { name: 'in Chinese', use: { locale: 'zh-CN' } },
  { name: 'on a phone', use: { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true } },
] as const)
  test.describe(name, () => {
    test.use(use);

    test('axe finds nothing serious, and nothing is wider than the window', async ({ people, inbox }) => {
      people.approvals.put(refund('a', 120, { decision: { ...two, approvedBy: ['bob'] } }));
      people.approvals.put(mail('b', { server: 'office', title: 'Sends anything' }));
      people.approvals.put(refund('c', 300, { input: { note: 'x'.repeat(300) } }));
      people.approvals.put(refund('d', 500));
      await inbox.open();
      await expect(inbox.cards).toHaveCount(4);
      people.approvals.settle('d', 'bob', 'denied', 'a duplicate');
      await expect(inbox.page).toHaveTitle(/^\(3\)/);
      await inbox.page.getByRole('checkbox').first().check();
      const isWide = () =>
        inbox.page.evaluate(
          () => document.documentElement.scrollWidth > document.documentElement.clientWidth,
        );
      expect(await seriousViolations(inbox.page)).toEqual([]);
      expect(await isWide()).toBe(false);
      await inbox.page.getByRole('group', { name: /3/ }).getByRole('button').first().click();
      expect(await seriousViolations(inbox.page)).toEqual([]);
      expect(await isWide()).toBe(false);
    });
  });
