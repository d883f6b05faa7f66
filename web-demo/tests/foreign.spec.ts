// Nothing is fetched from anywhere but the page's own server before somebody clicks, whatever a model, a file
// or a tool names.

import { expect, importHistory, PAGES, says, test, type ChatPage } from './world';

const FOREIGN = 'https://foreign.example';

const TEXT = `Here is ![inline](${FOREIGN}/inline?q=secret), ![by reference][cat], [![in a link](${FOREIGN}/in-a-link)](${FOREIGN}/page).

| a |
| - |
| ![in a table](${FOREIGN}/in-a-table) |

<img src="${FOREIGN}/html"> <video poster="${FOREIGN}/poster"></video>

<link rel="stylesheet" href="${FOREIGN}/style"><iframe src="${FOREIGN}/frame"></iframe>

[cat]: ${FOREIGN}/by-reference
`;

const PICTURE = { type: 'file', mediaType: 'image/png', url: `${FOREIGN}/file`, filename: 'cat.png' };

/** Notes every request that leaves for elsewhere, and answers it. */
async function listen({ page, base }: ChatPage): Promise<string[]> {
  const asked: string[] = [];
  await page.context().route(
    (url) => url.origin !== base,
    async (route) => {
      asked.push(route.request().url());
      await route.fulfill({ contentType: 'text/plain', body: 'a cat' });
    },
  );
  return asked;
}

async function opens(chat: ChatPage, name: string, address: string) {
  const tab = chat.page.waitForEvent('popup');
  await chat.log.getByRole('link', { name }).last().click();
  const opened = await tab;
  await opened.waitForLoadState();
  expect(opened.url()).toBe(address);
  expect(await opened.evaluate(() => ({ hasOpener: opener !== null, referrer: document.referrer }))).toEqual({
    hasOpener: false,
    referrer: '',
  });
  await opened.close();
}

for (const { name, path } of PAGES) {
  test.describe(`on ${name}`, () => {
    test.use({ path });

    test('a picture that a model names is fetched by a click, and not before', async ({ world, chat }) => {
      const asked = await listen(chat);
      world.model.script(says(TEXT));
      await chat.say('what do my notes say?');
      await chat.isAtRest();
      const answer = chat.answers.last();
      await expect(answer.getByRole('link', { name: 'Open the picture' })).toHaveCount(3);
      await expect(answer).toContainText('Open the picture “inline” (foreign.example)');
      await expect(answer.getByRole('img')).toHaveCount(0);
      await chat.reload();
      await expect(answer.getByRole('link', { name: 'Open the picture' })).toHaveCount(3);
      expect(asked).toEqual([]);
      await opens(chat, 'Open the picture “by reference”', `${FOREIGN}/by-reference`);
      expect(asked).toEqual([`${FOREIGN}/by-reference`]);
    });

    test('so is a picture that is a file of a message', async ({ world, chat }) => {
      const asked = await listen(chat);
      world.model.script(says('Very like a whale.'));
      const status = await importHistory(world, 'files', [
        { id: 'u', role: 'user', parts: [{ type: 'text', text: 'Look.' }, PICTURE] },
        {
          id: 'a',
          role: 'assistant',
          parts: [{ type: 'step-start' }, { type: 'text', text: 'A cat.', state: 'done' }, PICTURE],
        },
        { id: 'last', role: 'user', parts: [{ type: 'text', text: 'Is it?' }] },
      ]);
      expect(status).toBe(200);
      const other = await world.tab('files');
      await expect(other.log.getByRole('link', { name: 'Open the picture “cat.png”' })).toHaveCount(2);
      await expect(other.log).toContainText('(foreign.example)');
      expect(asked).toEqual([]);
      await opens(other, 'Open the picture “cat.png”', `${FOREIGN}/file`);
      expect(asked).toEqual([`${FOREIGN}/file`]);
    });
  });
}
