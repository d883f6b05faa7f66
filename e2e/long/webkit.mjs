// @ts-check
// Both demo pages in WebKitGTK; part of `npm run soak`. A message streams, calls are approved and edited, a chat that waits is loaded
// again, and the server goes away and comes back. The rest is where WebKit differs: input methods, scrollbars, selects, the cursor.
// PICTURES names a folder for pictures of it.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { API_KEY, calls, FakeOpenAi, says } from '../harness/fake-openai.mjs';
import { freePort } from '../harness/ports.mjs';
import { Server } from '../harness/server.mjs';
import { gate, until } from '../harness/until.mjs';
import { ENTER, NO_WEBKIT, WebKit } from '../harness/webdriver.mjs';

const PAGES = ['/', '/assistant-ui'];

const NOTE = { name: 'write_note', input: { title: 'Milk', body: 'Two litres.' } };

// === paths of elements ===

const COMPOSER = '//textarea[@aria-label="Message"]';
const CARD = '//article[@aria-label="Tool call write_note"]';
const AT_REST = '//body[not(.//button[@aria-label="Stop"])]';
const DIALOG = '//dialog[@open]';
const NO_DIALOG = '//body[not(.//dialog[@open])]';

/** @param {string} name */
const button = (name) => `//button[@aria-label="${name}" or normalize-space()="${name}"]`;

/** @param {string} words */
const answer = (words) => `(//article[@aria-label="Assistant"])[last()][contains(., "${words}")]`;

/** @param {string} words */
const alert = (words) => `//*[@role="alert"][contains(., "${words}")]`;

// === what is asked in the page ===

const IS_FOCUSED = 'return document.activeElement === arguments[0]';

/** Every element of another one that has a scrollbar, or would have one that takes no room. */
const SCROLLERS = `
  return [arguments[0], ...arguments[0].querySelectorAll('*')]
    .filter((one) => /auto|scroll/.test(getComputedStyle(one).overflowX) && one.scrollWidth > one.clientWidth)
    .map((one) => one.outerHTML.slice(0, 200) + ' ' + one.scrollWidth + ' in ' + one.clientWidth)`;

const SELECTS = `
  return [...arguments[0].querySelectorAll('select')]
    .map((one) => [getComputedStyle(one).appearance, one.getBoundingClientRect().height])`;

/** WebKit's order of events: the composition has ended when its Enter is reported. */
const END_WORD = `
  arguments[0].dispatchEvent(new CompositionEvent('compositionstart', { bubbles: true }));
  arguments[0].dispatchEvent(new CompositionEvent('compositionend', { bubbles: true, data: 'nihao' }));
  const key = { key: 'Enter', code: 'Enter', keyCode: 229, bubbles: true, cancelable: true };
  arguments[0].dispatchEvent(new KeyboardEvent('keydown', key));`;

// === the walk ===

/**
 * @param {WebKit} browser
 * @param {string} at the path of the page
 */
async function walk(browser, at) {
  const model = await FakeOpenAi.start();
  const api = { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: API_KEY, FERMATA_MODEL: 'test-model' };
  const server = new Server(await freePort(), api);
  server.configure('builtin = ["time", "notes", "memory"]\nkeep_recent = 2\nsummary_every = 50\n');
  const picture = async (/** @type {string} */ name) => {
    const folder = process.env.PICTURES;
    if (folder === undefined) return;
    const file = `webkit${at === '/' ? '' : '-assistant-ui'}-${name}.png`;
    writeFileSync(path.join(folder, file), await browser.screenshot());
  };
  const say = async (/** @type {string} */ words) => {
    await browser.sees(AT_REST);
    await browser.type(COMPOSER, words + ENTER);
  };
  try {
    await server.start();
    await browser.open(server.url + at);
    await until(() => browser.run(IS_FOCUSED, COMPOSER), 'the cursor to be in the composer of a new chat');
    assert.equal(
      await browser.run('return arguments[0].scrollHeight > arguments[0].clientHeight', COMPOSER),
      false,
      'the empty composer has a scrollbar',
    );

    const more = gate();
    model.script(async (pen) => {
      pen.says('One, ');
      await more.opened;
      pen.says('two.');
    });
    await say('count');
    await browser.sees(answer('One,'));
    more.open();
    await browser.sees(answer('One, two.'));

    model.script(calls(NOTE), says('It is written.'));
    await say('write it down');
    await browser.sees(`${CARD}//*[@role="status"][contains(., "Waiting for you")]`);
    await browser.reload();
    await browser.click(`(${CARD})[last()]${button('Approve')}`);
    await browser.sees(answer('It is written.'));

    model.script(calls(NOTE), says('It is written again.'));
    await say('write it down again');
    const card = `(${CARD})[last()]`;
    await browser.click(`${card}${button('Edit')}`);
    await browser.type(`(${card}//*[self::input or self::textarea])[1]`, ' of oats');
    await picture('edit');
    await browser.click(`${card}${button('Approve with these changes')}`);
    await browser.sees(answer('It is written again.'));
    assert.match(model.request(5).results.at(-1)?.text ?? '', /Milk of oats/);

    model.script(says('Hello.'));
    await browser.sees(AT_REST);
    await browser.type(COMPOSER, 'nihao');
    await browser.run(END_WORD, COMPOSER);
    assert.equal(await browser.run('return arguments[0].value', COMPOSER), 'nihao', 'the word was sent');
    await browser.type(COMPOSER, ENTER);
    await browser.sees(answer('Hello.'));
    assert.equal(model.requests.length, 6);

    await browser.click(button('Summary'));
    model.script(says(JSON.stringify({ goal: 'Notes about milk' })));
    await browser.click(`${DIALOG}${button('Compact now')}`);
    await browser.sees(`${DIALOG}${button('Save')}`);
    assert.deepEqual(await browser.run(SCROLLERS, DIALOG), [], 'the summary scrolls sideways');
    await picture('summary');
    await browser.click(`${DIALOG}${button('Close the summary')}`);
    await browser.sees(NO_DIALOG);

    await browser.click(button('Settings'));
    await browser.click(button('Manage memories'));
    const memories = `${DIALOG}[.//h2[normalize-space()="Memories"]]`;
    await browser.click(`${memories}${button('Add')}`);
    await browser.sees(`${memories}//form`);
    assert.deepEqual(await browser.run(SCROLLERS, memories), [], 'the memories scroll sideways');
    const selects = await browser.run(SELECTS, memories);
    assert.deepEqual(selects, [
      ['none', 40],
      ['none', 40],
    ]);
    await picture('memories');
    await browser.reload();
    await browser.sees(answer('Hello.'));

    await server.kill();
    await say('are you there?');
    await browser.sees(alert('The server could not be reached. Nothing is lost: try again.'));
    await picture('unsent');
    await server.start();
    model.script(says('I am.'));
    await browser.click(button('Try again'));
    await browser.sees(answer('I am.'));
    assert.deepEqual(model.verdict, []);
  } catch (error) {
    await picture('failure');
    console.error(server.log.split('\n').slice(-20).join('\n'));
    throw error;
  } finally {
    await server.discard();
    await model.stop();
  }
}

if (NO_WEBKIT !== undefined) {
  console.log(`webkit: skipped, because ${NO_WEBKIT}`);
} else {
  for (const at of PAGES) {
    const browser = await WebKit.start();
    try {
      await walk(browser, at);
      console.log(`webkit: ${at} works`);
    } finally {
      await browser.stop();
    }
  }
}
