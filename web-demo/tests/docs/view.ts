// A page of an example, as a person sees it: by the words on it, as a screen reader has them.

import { expect, type Locator, type Page } from '@playwright/test';

export class View {
  constructor(readonly page: Page) {}

  async say(words: string) {
    await this.page.getByLabel('Message').fill(words);
    await this.press('Send');
  }

  async press(button: string, within: Page | Locator = this.page) {
    await within.getByRole('button', { name: button, exact: true }).click();
  }

  /** The last card of a tool. */
  card(tool: string): Locator {
    return this.page.getByRole('region', { name: tool }).last();
  }

  async shows(words: string | RegExp) {
    await expect(this.page.getByText(words).last()).toBeVisible();
  }
}
