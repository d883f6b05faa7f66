// A page of the demo as a person knows it: by the roles and names of what is on it. Knows no class and no
// component, and is the same for both pages.

import { expect, type Locator, type Page } from '@playwright/test';

export class ChatPage {
  constructor(
    readonly page: Page,
    readonly id: string,
    readonly base: string,
    readonly path: string,
  ) {}

  /** Opens a chat; a new one, if none is named. */
  static async open(page: Page, base: string, path: string, id?: string): Promise<ChatPage> {
    await page.goto(`${base}${path}${id === undefined ? '' : `?chat=${id}`}`);
    await page.waitForURL(/[?&]chat=/);
    const chat = new ChatPage(page, new URL(page.url()).searchParams.get('chat') ?? '', base, path);
    await expect(chat.composer).toBeEditable();
    return chat;
  }

  // --- writing ---

  get composer(): Locator {
    return this.page.getByRole('textbox', { name: 'Message', exact: true });
  }

  get send(): Locator {
    return this.page.getByRole('button', { name: 'Send', exact: true });
  }

  get stop(): Locator {
    return this.page.getByRole('button', { name: 'Stop', exact: true });
  }

  /** Writes a message and sends it by Enter. */
  async say(words: string) {
    await this.composer.fill(words);
    await this.composer.press('Enter');
  }

  // --- messages ---

  get log(): Locator {
    return this.page.getByRole('log', { name: 'Messages' });
  }

  /** The messages of the model, oldest first. */
  get answers(): Locator {
    return this.log.getByRole('article', { name: 'Assistant', exact: true });
  }

  /** The messages of the person, oldest first. */
  get words(): Locator {
    return this.log.getByRole('article', { name: 'You', exact: true });
  }

  /** The last answer is written, and says this. */
  async hears(words: string | RegExp) {
    await expect(this.answers.last()).toContainText(words);
  }

  /** Nothing is under way any more. */
  async isAtRest() {
    await expect(this.stop).toBeHidden();
    await expect(this.answers.last()).toHaveAttribute('aria-busy', 'false');
  }

  // --- calls ---

  /** The card of a call, by its tool. */
  card(tool: string): Locator {
    return this.log.getByRole('article', { name: `Tool call ${tool}`, exact: true });
  }

  /** The card's state, in words. */
  state(card: Locator): Locator {
    return card.getByRole('status').first();
  }

  async isInState(card: Locator, words: string) {
    await expect(this.state(card)).toHaveText(words);
  }

  /** Unfolds the input and the result of a card. */
  async unfold(card: Locator) {
    const details = card.getByRole('button', { name: /^Details of / });
    if ((await details.getAttribute('aria-expanded')) === 'false') await details.click();
    await expect(details).toHaveAttribute('aria-expanded', 'true');
  }

  press(card: Locator, name: string) {
    return card.getByRole('button', { name, exact: true }).click();
  }

  /** How far the decisions of the step are. */
  get gate(): Locator {
    return this.log.getByRole('group', { name: 'Decisions of this step' });
  }

  get question(): Locator {
    return this.log.getByRole('article', { name: 'Question' });
  }

  // --- around it ---

  /** Opens the settings, in either language. */
  async settings(): Promise<Locator> {
    await this.page.getByRole('button', { name: /^(Settings|设置)$/ }).click();
    return this.page.getByRole('dialog', { name: /^(Settings|设置)$/ });
  }

  /** Presses a button of the settings, such as that of a language or a theme. */
  async set(name: string) {
    const settings = await this.settings();
    await settings.getByRole('button', { name, exact: true }).click();
    await settings.getByRole('button', { name: /^(Close the settings|关闭设置)$/ }).click();
    await expect(settings).toBeHidden();
  }

  get chats(): Locator {
    return this.page.getByRole('navigation', { name: 'Chats' });
  }

  get elsewhere(): Locator {
    return this.page.getByRole('region', { name: 'Waiting in other chats' });
  }

  /** What the banner about the connection says. */
  banner(words: string | RegExp): Locator {
    return this.page.getByRole('status').filter({ hasText: words });
  }

  async reload() {
    await this.page.reload();
    await expect(this.composer).toBeEditable();
  }
}
