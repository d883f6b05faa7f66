// What breaks elsewhere: reload, two tabs, sleep, restarts, answers given twice, a slow network. Nothing is
// lost, and nothing happens twice.

import { calls, expect, FAILED_REQUEST, gate, journal, says, test, times, until, type World } from './world';

const CHANGE = { name: 'hand__change', input: { key: 'once' }, id: 'once' };
const changes = (world: World) => journal(world.server).filter(({ event }) => event === 'changed');

test.use({ hand: true });

test('a reload in the middle of the words goes on with them', async ({ world, chat }) => {
  const more = gate();
  world.model.script(async (pen) => {
    pen.says('One, ');
    await more.opened;
    pen.says('two.');
  });
  await chat.say('count');
  await chat.hears('One,');
  await chat.reload();
  await chat.hears('One,');
  more.open();
  await chat.hears('One, two.');
  await expect(chat.answers).toHaveCount(1);
});

test('a reload while a call waits finds its card, and the card works', async ({ world, chat }) => {
  world.model.script(calls(CHANGE), says('Changed.'));
  await chat.say('change it');
  const card = chat.card('hand__change');
  await chat.isInState(card, 'Waiting for you');
  await chat.reload();
  await chat.isInState(card, 'Waiting for you');
  await chat.press(card, 'Approve');
  await chat.hears('Changed.');
  await chat.isInState(card, 'Done');
  expect(changes(world)).toHaveLength(1);
});

// Firefox's HTTP cache lets a request wait for another one of the same URL, for 20 seconds.
test('two tabs that were both loaded again read one stream', async ({ world, chat }) => {
  world.model.script(calls(CHANGE), says('Changed.'));
  await chat.say('change it');
  await chat.isInState(chat.card('hand__change'), 'Waiting for you');
  await chat.reload();
  await chat.isInState(chat.card('hand__change'), 'Waiting for you');
  const other = await world.tab(chat.id);
  await other.isInState(other.card('hand__change'), 'Waiting for you');
  await other.reload();
  await other.isInState(other.card('hand__change'), 'Waiting for you');
  await other.press(other.card('hand__change'), 'Approve');
  for (const tab of [chat, other]) await tab.hears('Changed.');
});

test('a reload while a form of the page waits finds it again', async ({ world, chat }) => {
  world.model.script(
    calls({ name: 'ask_question', input: { question: 'Tea?', options: ['Yes', 'No'] } }),
    says('Tea it is.'),
  );
  await chat.say('ask me');
  await chat.isInState(chat.card('ask_question'), 'Waiting for you');
  await chat.reload();
  await chat.press(chat.card('ask_question'), 'Yes');
  await chat.hears('Tea it is.');
});

test('an answer in one tab closes the card in the other', async ({ world, chat }) => {
  world.model.script(calls(CHANGE), says('Changed.'));
  await chat.say('change it');
  await chat.isInState(chat.card('hand__change'), 'Waiting for you');
  const other = await world.tab(chat.id);
  await other.isInState(other.card('hand__change'), 'Waiting for you');
  await other.press(other.card('hand__change'), 'Approve');
  for (const tab of [other, chat]) {
    await tab.hears('Changed.');
    await tab.isInState(tab.card('hand__change'), 'Done');
    await expect(tab.card('hand__change').getByRole('button', { name: 'Approve' })).toHaveCount(0);
  }
  expect(changes(world)).toHaveLength(1);
});

test('a tool of the page runs once between two tabs', async ({ world, chat, context }) => {
  await context.grantPermissions(['geolocation']);
  await context.setGeolocation({ latitude: 1, longitude: 2 });
  await context.addInitScript(() => {
    const ask = navigator.geolocation.getCurrentPosition.bind(navigator.geolocation);
    navigator.geolocation.getCurrentPosition = (...given) => {
      localStorage.setItem('asked', String(Number(localStorage.getItem('asked') ?? 0) + 1));
      ask(...given);
    };
  });
  // Two tabs of a chat that has no message yet: the server does not know it.
  world.mayLog(FAILED_REQUEST);
  const other = await world.tab(chat.id);
  await chat.reload();
  const call = gate();
  world.model.script(async (pen) => {
    pen.says('Looking.');
    await call.opened;
    pen.calls({ name: 'get_location', input: {}, id: 'where' });
  }, says('Found.'));
  await chat.say('where am I?');
  for (const tab of [chat, other]) await tab.hears('Looking.');
  call.open();
  for (const tab of [chat, other]) {
    await tab.hears('Found.');
    await tab.isInState(tab.card('get_location'), 'Done');
  }
  expect(await chat.page.evaluate(() => localStorage.getItem('asked'))).toBe('1');
});

test('a record that two tabs are asked for is written once', async ({ world, chat }) => {
  world.model.script(
    calls({ name: 'create_record', input: { collection: 'teas', title: 'Sencha' } }),
    says('Kept.'),
  );
  await chat.say('keep it');
  const other = await world.tab(chat.id);
  await expect(other.card('create_record')).toContainText('Save this record');
  await chat.press(chat.card('create_record'), 'Save');
  for (const tab of [chat, other]) {
    await tab.hears('Kept.');
    await expect(tab.card('create_record')).toContainText('Kept in this browser');
  }
  const kept = () => Object.keys(localStorage).filter((key) => key.includes('record'));
  expect(await other.page.evaluate(kept)).toHaveLength(1);
});

test.describe('past hold', () => {
  test.use({ settings: { FERMATA_HOLD: '1s' } });

  test('the card still works after its stream was let go', async ({ world, chat }) => {
    world.model.script(calls(CHANGE), says('Changed.'));
    const letGo = chat.page.waitForResponse((response) => response.url().endsWith('/api/chat'));
    await chat.say('change it');
    await (await letGo).finished();
    const card = chat.card('hand__change');
    await chat.isInState(card, 'Waiting for you');
    await chat.press(card, 'Approve');
    await chat.hears('Changed.');
    await chat.isInState(card, 'Done');
    await chat.isAtRest();
    expect(changes(world)).toHaveLength(1);
    expect(world.model.requests).toHaveLength(2);
  });

  test('a laptop that slept, and is online again, can answer', async ({ world, chat, context }) => {
    world.mayLog(FAILED_REQUEST);
    world.model.script(calls(CHANGE), says('Changed.'));
    const letGo = chat.page.waitForResponse((response) => response.url().endsWith('/api/chat'));
    await chat.say('change it');
    await chat.isInState(chat.card('hand__change'), 'Waiting for you');
    await context.setOffline(true);
    await expect(chat.banner('You are offline.')).toBeVisible();
    await (await letGo).finished().catch(() => null);
    await context.setOffline(false);
    await expect(chat.banner('You are offline.')).toBeHidden();
    await chat.press(chat.card('hand__change'), 'Approve');
    await chat.hears('Changed.');
    expect(changes(world)).toHaveLength(1);
  });
});

for (const [way, end] of [
  ['killed', (world: World) => world.server.kill()],
  ['ended in good order', (world: World) => world.server.end()],
] as const) {
  test(`a server that is ${way} while a call waits comes back with it`, async ({ world, chat }) => {
    world.mayLog(FAILED_REQUEST);
    world.model.script(calls(CHANGE), says('Changed.'));
    await chat.say('change it');
    const card = chat.card('hand__change');
    await chat.isInState(card, 'Waiting for you');
    await end(world);
    await world.server.start();
    await expect(card.getByRole('button', { name: 'Approve' })).toBeEnabled();
    await chat.press(card, 'Approve');
    await chat.hears('Changed.');
    await chat.isInState(card, 'Done');
    expect(changes(world)).toHaveLength(1);
  });
}

test('a connection that breaks is shown, and taken up again', async ({ world, chat }) => {
  world.mayLog(FAILED_REQUEST);
  world.model.script(calls(CHANGE), says('Changed.'));
  await chat.say('change it');
  await chat.isInState(chat.card('hand__change'), 'Waiting for you');
  await world.server.kill();
  await expect(chat.banner('The connection was lost.')).toBeVisible();
  await world.server.start();
  await expect(chat.banner('The connection was lost.')).toBeHidden();
  await chat.isInState(chat.card('hand__change'), 'Waiting for you');
  await chat.press(chat.card('hand__change'), 'Approve');
  await chat.hears('Changed.');
});

test('an answer that the network keeps back twice is given once', async ({ world, chat, browserName }) => {
  test.skip(browserName === 'firefox', 'over WebDriver BiDi a test cannot send a request with its body');
  world.mayLog(FAILED_REQUEST);
  world.model.script(calls(CHANGE), says('Changed.'));
  await chat.say('change it');
  await chat.isInState(chat.card('hand__change'), 'Waiting for you');
  // The server takes the answer, but the page never hears of it.
  let lost = 0;
  await chat.page.route('**/chat/tool-result', async (route) => {
    if (lost > 0) return route.continue();
    lost += 1;
    await route.fetch();
    return route.abort();
  });
  await chat.press(chat.card('hand__change'), 'Approve');
  await chat.hears('Changed.');
  await chat.isInState(chat.card('hand__change'), 'Done');
  expect(lost).toBe(1);
  expect(changes(world)).toHaveLength(1);
});

test('the second of two different answers is refused, and the page shows what came of the first', async ({
  world,
  chat,
}) => {
  world.mayLog(FAILED_REQUEST);
  world.model.script(calls(CHANGE), says('Changed.'));
  await chat.say('change it');
  const card = chat.card('hand__change');
  await chat.press(card, 'Deny');
  const other = await world.tab(chat.id);
  await other.isInState(other.card('hand__change'), 'Waiting for you');
  // This tab does not hear of the other's answer before it gives its own.
  const held = gate();
  await chat.page.route('**/chat/tool-result', async (route) => {
    await held.opened;
    await route.continue();
  });
  await chat.press(card, 'Deny');
  await other.press(other.card('hand__change'), 'Approve');
  await until(() => changes(world).length === 1, 'the change');
  held.open();
  for (const tab of [chat, other]) {
    await tab.hears('Changed.');
    await tab.isInState(tab.card('hand__change'), 'Done');
  }
});

test('a slow network only takes longer', async ({ world, chat, context, browserName }) => {
  test.skip(browserName !== 'chromium', 'only Chromium has a slow network');
  const network = await context.newCDPSession(chat.page);
  const slow = { offline: false, latency: 400, downloadThroughput: 50_000, uploadThroughput: 20_000 };
  await network.send('Network.enable');
  await network.send('Network.emulateNetworkConditions', slow);
  world.model.script(calls(CHANGE), says('Changed.'));
  await chat.say('change it');
  const card = chat.card('hand__change');
  await chat.isInState(card, 'Waiting for you');
  await card.getByRole('button', { name: 'Approve' }).dblclick();
  await chat.hears('Changed.');
  await chat.isInState(card, 'Done');
  expect(changes(world)).toHaveLength(1);
});

test('a new message takes the place of a run that waits', async ({ world, chat }) => {
  world.model.script(calls(CHANGE), says('Something else, then.'));
  await chat.say('change it');
  const card = chat.card('hand__change');
  await chat.isInState(card, 'Waiting for you');
  await chat.say('never mind that, tell me something else instead');
  await chat.hears('Something else, then.');
  await expect(card.getByRole('button', { name: 'Approve' })).toHaveCount(0);
  expect(times(world.server, 'changed')).toBe(0);
});

test('stop ends a run that waits', async ({ world, chat }) => {
  world.model.script(calls(CHANGE));
  await chat.say('change it');
  const card = chat.card('hand__change');
  await chat.isInState(card, 'Waiting for you');
  await chat.stop.click();
  await expect(card.getByRole('button', { name: 'Approve' })).toHaveCount(0);
  await chat.isAtRest();
  await chat.reload();
  await expect(card.getByRole('button', { name: 'Approve' })).toHaveCount(0);
  expect(times(world.server, 'changed')).toBe(0);
});
