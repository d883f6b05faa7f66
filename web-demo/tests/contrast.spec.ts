// That what people press, read and write in can be seen: every button, card and field, in each of its states, by day and by night.

import { calls, expect, PAGES, test, type ChatPage, type World } from './world';

/** What WCAG 1.4.11 asks of graphics and of the borders of fields. */
const LEAST = 3;
const NOTE = { name: 'write_note', input: { title: 'Milk', body: 'Two litres.' } };

/** The contrasts of all icons and of all borders of fields, cards and buttons that are shown now, with what they are. */
async function contrasts({ page }: ChatPage): Promise<{ what: string; contrast: number }[]> {
  return page.evaluate(() => {
    // A colour on its way to another is none of the page's.
    for (const animation of document.getAnimations())
      if (animation instanceof CSSTransition) animation.finish();
    type Colour = [number, number, number, number];
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const read = (colour: string): Colour => {
      if (canvas === null) throw new Error('no canvas');
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [red = 0, green = 0, blue = 0, alpha = 0] = canvas.getImageData(0, 0, 1, 1).data;
      return [red, green, blue, alpha / 255];
    };
    const over = ([r, g, b, a]: Colour, [R, G, B]: Colour): Colour => {
      const mix = (one: number, other: number) => one * a + other * (1 - a);
      return [mix(r, R), mix(g, G), mix(b, B), 1];
    };
    const pathTo = (element: Element | null): Element[] =>
      element === null ? [] : [...pathTo(element.parentElement), element];
    /** What a colour looks like on an element, and what is behind it. */
    const seen = (colour: string, element: Element) => {
      let behind: Colour = [255, 255, 255, 1];
      let shown: Colour | undefined;
      for (const one of pathTo(element)) {
        const style = getComputedStyle(one);
        const opacity = Number(style.opacity);
        const [r, g, b, a] = read(style.backgroundColor);
        // Whatever is in a group that is half transparent is so, too.
        const under = behind;
        behind = over([r, g, b, a * opacity], behind);
        if (one === element) {
          const [R, G, B, A] = read(colour);
          shown = over([R, G, B, A * opacity], opacity < 1 ? over([r, g, b, a * opacity], under) : behind);
        }
      }
      return { shown: shown ?? behind, behind };
    };
    const luminance = ([r, g, b]: Colour) => {
      const linear = (part: number) => {
        const value = part / 255;
        return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
      };
      return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    };
    const contrast = (one: Colour, other: Colour) => {
      const [dark = 0, light = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
      return (light + 0.05) / (dark + 0.05);
    };
    const isShown = (element: Element) =>
      element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) &&
      element.getBoundingClientRect().width > 1;
    const icons = [...document.querySelectorAll('button svg')].filter(isShown).map((icon) => {
      const button = icon.closest('button') ?? icon;
      const { shown, behind } = seen(getComputedStyle(icon).color, button);
      const name = button.getAttribute('aria-label') ?? button.textContent;
      return { what: `icon of ${name}`, contrast: contrast(shown, behind) };
    });
    const borderOf = (element: Element) => {
      const { shown } = seen(getComputedStyle(element).borderTopColor, element);
      const { behind } = seen('transparent', element.parentElement ?? element);
      return contrast(shown, behind);
    };
    const hasBorder = (element: Element) => {
      const { borderTopWidth, borderTopColor } = getComputedStyle(element);
      return borderTopWidth !== '0px' && read(borderTopColor)[3] > 0;
    };
    const fields = [...document.querySelectorAll('textarea, input:not([type=checkbox], [hidden]), .field')]
      .filter(isShown)
      .map((field) => ({
        what: `border of ${field.getAttribute('aria-label') ?? field.id}`,
        contrast: borderOf(pathTo(field).findLast(hasBorder) ?? field),
      }));
    // What cannot be pressed now need not be seen as well.
    const framed = [...document.querySelectorAll('article, [role=group], dialog, button:not(:disabled)')]
      .filter((one) => isShown(one) && hasBorder(one))
      .map((one) => ({
        what: `border of ${one.tagName} ${one.getAttribute('aria-label') ?? one.textContent}`,
        contrast: borderOf(one),
      }));
    return [...icons, ...fields, ...framed];
  });
}

async function allCanBeSeen(chat: ChatPage, when: string) {
  const all = await contrasts(chat);
  expect(all.length, when).toBeGreaterThan(3);
  const faint = all.filter(({ contrast }) => contrast < LEAST);
  expect(faint, when).toEqual([]);
}

/** The icon buttons in the order of the page. */
const icons = (chat: ChatPage) => chat.page.locator('button:has(> svg:only-child)');

/** Each icon button with the pointer on it, and pressed. What it does is not done. */
async function handled(chat: ChatPage, when: string) {
  await chat.page.evaluate(() => {
    addEventListener(
      'click',
      (event) => {
        if (event.isTrusted && event.target instanceof Element && event.target.closest('button')) {
          event.stopImmediatePropagation();
          event.preventDefault();
        }
      },
      { capture: true, signal: ((window as { held?: AbortController }).held = new AbortController()).signal },
    );
  });
  for (const button of await icons(chat).all()) {
    if (!(await button.isVisible())) continue;
    await button.hover({ force: true });
    await allCanBeSeen(chat, `${when}, with the pointer on ${await button.getAttribute('aria-label')}`);
    await chat.page.mouse.down();
    await allCanBeSeen(chat, `${when}, while ${await button.getAttribute('aria-label')} is pressed`);
    await chat.page.mouse.up();
  }
  await chat.page.mouse.move(0, 0);
  await chat.page.evaluate(() => {
    (window as { held?: AbortController }).held?.abort();
  });
}

async function everyState(world: World, chat: ChatPage) {
  await expect(chat.send).toBeDisabled();
  await allCanBeSeen(chat, 'empty, so that nothing can be sent');
  await chat.composer.fill('write it down');
  await expect(chat.send).toBeEnabled();
  await handled(chat, 'with something to send');
  await chat.page.getByRole('button', { name: 'Tools' }).click();
  await chat.page.getByRole('button', { name: 'Lock search_notes' }).click();
  await allCanBeSeen(chat, 'with a tool that is locked');
  await chat.page.getByRole('button', { name: 'Release the lock' }).first().click();
  await chat.page.keyboard.press('Escape');
  world.model.script(calls(NOTE));
  await chat.composer.press('Enter');
  await chat.isInState(chat.card('write_note'), 'Waiting for you');
  await chat.press(chat.card('write_note'), 'Edit');
  await expect(chat.stop).toBeVisible();
  await handled(chat, 'while a call waits, with its form open');
}

for (const { name, path } of PAGES)
  for (const theme of ['Light', 'Dark'])
    test.describe(`${name}, ${theme}`, () => {
      test.use({ path });

      test('every icon, field, card and button can be seen in every state', async ({ world, chat }) => {
        await chat.set(theme);
        await everyState(world, chat);
      });
    });
