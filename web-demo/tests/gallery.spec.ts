// The page of the cards: every item of the registry with its states, and axe finds nothing in any of its looks.

import { AxeBuilder } from '@axe-core/playwright';
import type { Page } from '@playwright/test';
import { REGISTRY_ITEMS } from '../registry/registry';
import { expect, test, type World } from './world';

async function open(world: World, page: Page): Promise<void> {
  await page.goto(`${world.server.url}/gallery`);
  await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
}

const stateOf = (page: Page, item: string, what: string) =>
  page.locator(`#${item} [data-what="${what}"]`).first();

test('every item of the registry has its anchor and its command', async ({ world, page }) => {
  await open(world, page);
  for (const item of REGISTRY_ITEMS) {
    const section = page.locator(`section#${item}`);
    await expect(section).toContainText(`npx shadcn add ${world.server.url}/r/${item}.json`);
    expect(await section.locator('[data-what]').count()).toBeGreaterThan(1);
  }
});

test('a card shows the state that it is named after', async ({ world, page }) => {
  await open(world, page);
  const approval = (what: string) => stateOf(page, 'approval-card', what);
  await expect(approval('edited').getByRole('textbox', { name: /^title/i })).toHaveValue('Buy milk');
  const preview = approval('edited').locator('form').getByLabel('The difference, line by line');
  await expect(preview).toContainText('Two litres');
  await expect(approval('difference').getByLabel('The difference, line by line')).toContainText('Two litres');
  await expect(
    approval('scopes').getByRole('button', {
      name: 'Always in this chat: every call of fetch_url for docs.example.com',
    }),
  ).toBeVisible();
  await expect(approval('exact')).toContainText('12345678901234567890');
  await expect(approval('denying').getByLabel('Why not?')).toBeVisible();
  await expect(approval('denied')).toContainText('Not today');
  await expect(approval('timedOut')).toContainText('Nobody answered in time');
  await expect(approval('running').getByRole('button', { name: 'Cancel write_note' })).toBeVisible();
  await expect(approval('failed').getByRole('button', { name: 'Try again: search_notes' })).toBeVisible();
  await expect(approval('lastOutput')).toContainText('Found so far: 2');
  await expect(stateOf(page, 'schema-form', 'invalid').getByRole('alert')).toBeVisible();
  await expect(stateOf(page, 'gate', 'closed')).toContainText('2 decisions left');
  await expect(stateOf(page, 'plan', 'edit').getByLabel('Goal')).toHaveValue('A letter to the neighbours');
  await expect(stateOf(page, 'plan', 'dropped')).toContainText('Not followed');
  await expect(stateOf(page, 'question', 'choices').getByRole('combobox')).toHaveValue('0');
});

test('the page begins where its address leads', async ({ world, page }) => {
  await open(world, page);
  await expect(page.getByRole('heading', { level: 1 })).toBeInViewport();
  await page.goto(`${world.server.url}/gallery#plan`);
  await page.reload();
  await expect(page.getByRole('heading', { name: 'Plan', exact: true })).toBeInViewport();
});

test('an edited input is previewed as it is typed', async ({ world, page }) => {
  await open(world, page);
  const edited = stateOf(page, 'approval-card', 'edited');
  await edited.getByRole('textbox', { name: /^body/i }).fill('Three litres');
  const preview = edited.locator('form').getByLabel('The difference, line by line');
  await expect(preview).toContainText('Three litres');
});

for (const [theme, locale, width] of [
  ['light', 'en-GB', 1280],
  ['dark', 'zh-CN', 1280],
  ['dark', 'en-GB', 390],
  ['light', 'zh-CN', 390],
] as const)
  test.describe(`${theme}, ${locale}, ${width} pixels`, () => {
    test.use({ colorScheme: theme, locale, viewport: { width, height: 800 } });

    test('axe finds nothing, and nothing is cut off', async ({ world, page }) => {
      // axe looks at each of two thousand elements.
      test.setTimeout(300_000);
      await open(world, page);
      await expect(page.locator('html')).toHaveAttribute('data-theme', theme);
      await expect(page.getByRole('heading', { level: 1 })).toHaveText(locale === 'zh-CN' ? '卡片' : 'Cards');
      const { violations } = await new AxeBuilder({ page }).analyze();
      expect(violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))).toEqual([]);
      const overflow = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      expect(overflow).toBe(0);
    });
  });

test('a text from right to left runs so, also beside words that do not', async ({ world, page }) => {
  await open(world, page);
  const arabic = [
    stateOf(page, 'approval-card', 'rightToLeft').getByText('قائمة التسوق').last(),
    stateOf(page, 'approval-card', 'rightToLeft').getByText('يكتب هذا').last(),
    stateOf(page, 'schema-form', 'rightToLeft').getByRole('textbox'),
    stateOf(page, 'plan', 'rightToLeft').getByText('قراءة القائمة').last(),
    stateOf(page, 'question', 'rightToLeft').getByText('إلى أي عنوان').last(),
  ];
  for (const text of arabic)
    expect(await text.evaluate((element) => getComputedStyle(element).direction)).toBe('rtl');
});
