// @ts-check
// What ends a run before its time: stop, a newer message, delete, a crash. Each leaves a history that every
// provider takes, and no client that posts again by itself.

import assert from 'node:assert/strict';
import { calls, says } from '../harness/fake-openai.mjs';
import { messageOf } from '../harness/message.mjs';
import { BROWSER_TOOLS, scenario } from '../harness/scenario.mjs';
import { gate, until } from '../harness/until.mjs';

const locate = { name: 'get_location', input: { accuracy: 'high' } };

scenario('stop ends the request to the model and the next turn works', {}, async (world) => {
  const { model } = world;
  model.script(async (pen) => {
    pen.says('One, ');
    await pen.gone;
  }, says('Hello again.'));
  const page = await world.page({ sends: 'outputs' });
  page.say('count');
  await page.reads('One, ');
  await world.stop();
  await until(() => model.request(1).gone, 'the connection to the model to be closed');
  await page.settles();
  assert.equal(page.posts.length, 1);
  page.say('hello');
  await page.settles();
  assert.equal(page.words, 'Hello again.');
  assert.deepEqual(model.request(2).words, ['user: count', 'assistant: One, ', 'user: hello']);
});

scenario('stop settles a parked call and no client posts again', {}, async (world) => {
  const { model, version } = world;
  model.script(calls(locate), says('Hello again.'));
  const page = await world.page({ tools: BROWSER_TOOLS, sends: version === 5 ? 'outputs' : 'approvals' });
  page.say('where am I?');
  const { toolCallId } = await page.shows('get_location', 'input-available');
  await world.stop();
  await page.settles();
  assert.equal(page.calls[0]?.state, 'output-error');
  assert.equal(page.posts.length, 1);
  const late = await world.request('POST', '/chat/tool-result', {
    chatId: world.id,
    toolCallId,
    output: 'Bern',
  });
  assert.equal(late.status, 410);
  await world.stop();
  page.say('hello');
  await page.settles();
  assert.equal(page.words, 'Hello again.');
  assert.equal(model.request(2).results.length, 1);
});

scenario('stop in the middle of a call leaves nothing half', {}, async (world) => {
  const { model } = world;
  model.script(async (pen) => {
    const index = pen.begins('write_note', 'call_half');
    pen.argues(index, '{"title": "sho');
    await pen.gone;
  }, says('Hello again.'));
  const page = await world.page({ sends: 'outputs' });
  page.say('note: milk');
  await page.shows('write_note', 'input-streaming');
  await world.stop();
  await page.settles();
  assert.equal(page.posts.length, 1);
  page.say('hello');
  await page.settles();
  assert.equal(page.words, 'Hello again.');
});

scenario(
  'no call of an answer that a content filter cut off runs, and no client posts again',
  {},
  async (world) => {
    const { model } = world;
    model.script((pen) => {
      pen.says('Let me see.');
      pen.calls({ name: 'current_time', input: {} }, locate, {
        name: 'write_note',
        input: { title: 'shopping', body: 'milk' },
      });
      pen.finishReason = 'content_filter';
    }, says('Hello again.'));
    const page = await world.page({ tools: BROWSER_TOOLS, sends: 'outputs', hearsEnds: true });
    page.say('where am I, and when?');
    await page.settles();
    assert.deepEqual(
      page.calls.map((call) => call.state),
      ['output-error', 'output-error', 'output-error'],
    );
    assert.ok(
      page.calls.every((call) => call.errorText?.startsWith('The answer was cut off by the provider')),
      JSON.stringify(page.calls),
    );
    assert.deepEqual(page.toolCalls, [], 'a browser tool was run');
    assert.deepEqual(await world.pending(), []);
    assert.equal(page.posts.length, 1);
    if (world.version > 5) assert.deepEqual(page.finishReasons, ['content-filter']);
    page.say('hello');
    await page.settles();
    assert.equal(page.words, 'Hello again.');
    assert.equal(model.requests.length, 2);
    assert.deepEqual(
      model.request(2).results.map((result) => result.text.includes('did not run')),
      [true, true, true],
    );
  },
);

scenario('a new message ends the run that is parked', {}, async (world) => {
  const { model } = world;
  model.script(calls(locate), says('Never mind.'));
  const page = await world.page({ tools: BROWSER_TOOLS });
  page.say('where am I?');
  await page.shows('get_location', 'input-available');
  const superseded = page.reply;
  world.abandons(superseded);
  page.say('something else');
  await page.settles();
  assert.equal(page.posts.length, 2);
  assert.equal(page.words, 'Never mind.');
  assert.deepEqual(
    page.messages.map((message) => message.role),
    ['user', 'assistant', 'user', 'assistant'],
  );
  assert.deepEqual(await world.pending(), []);
  const [call] = (await world.stored()).flatMap((message) => message.parts).filter((part) => part.toolCallId);
  assert.equal(call?.state, 'output-error');
  assert.equal(model.request(2).results.length, 1);
});

scenario('a deleted chat is gone, its parked call with it', {}, async (world) => {
  world.model.script(calls(locate));
  const stream = await world.post('where am I?', { tools: BROWSER_TOOLS });
  const { toolCallId } = await stream.sees('tool-input-available');
  const deleted = await world.request('DELETE', `/api/chat/${world.id}`);
  assert.ok(deleted.ok, `${deleted.status}`);
  await stream.toEnd();
  assert.equal((await world.request('GET', `/api/chat/${world.id}`)).status, 404);
  const late = await world.request('POST', '/chat/tool-result', {
    chatId: world.id,
    toolCallId,
    output: 'Bern',
  });
  assert.equal(late.status, 404);
});

scenario('a parked call survives a crash of the server', {}, async (world) => {
  const { model, server } = world;
  model.script(says('Hello.'), calls(locate), says('You are in Bern.'), says('Bye.'));
  world.expectErrors();
  const before = await world.page({ tools: BROWSER_TOOLS });
  before.say('hello');
  await before.settles();
  before.say('where am I?');
  const { toolCallId } = await before.shows('get_location', 'input-available');
  await server.kill();
  await world.close(before);
  await server.start();

  assert.deepEqual(
    (await world.pending()).map((call) => call.id),
    [toolCallId],
  );
  await world.answer({ toolCallId, output: 'Bern' });
  const hasEnded = async () => JSON.stringify((await world.stored()).at(-1)).includes('You are in Bern.');
  await until(hasEnded, 'the end of the run in the record');
  const page = await world.page({ tools: BROWSER_TOOLS });
  await page.resume();
  await page.settles();
  assert.equal(page.words, 'You are in Bern.');
  assert.equal(page.messages.length, 4);
  assert.deepEqual(model.request(3).results, [{ name: 'get_location', text: 'Bern' }]);
  page.say('bye');
  await page.settles();
  assert.equal(page.words, 'Bye.');
});

scenario(
  'an open question survives a crash and the call runs once it is answered',
  { versions: [6, 7] },
  async (world) => {
    const { model, server } = world;
    model.script(calls({ name: 'write_note', input: { title: 'shopping', body: 'milk' } }), says('Noted.'));
    const stream = await world.post('note: milk');
    const { approvalId } = await stream.sees('tool-approval-request');
    await server.kill();
    await server.start();
    await world.answer({ approvalId, approved: true });
    const hasEnded = async () => JSON.stringify((await world.stored()).at(-1)).includes('Noted.');
    await until(hasEnded, 'the end of the run in the record');
    assert.equal(model.request(2).results.length, 1);
  },
);

scenario('a run that a crash cut off is taken up again, whole and once', {}, async (world) => {
  const { model, server } = world;
  model.script(
    async (pen) => {
      pen.says('One, ');
      await pen.gone;
    },
    says('One, two.'),
    says('Hello again.'),
  );
  world.expectErrors();
  const before = await world.page();
  before.say('count');
  await before.reads('One, ');
  await server.kill();
  await world.close(before);
  await server.start();
  const page = await world.page();
  await page.resume();
  await page.settles();
  assert.equal(page.messages[0]?.parts[0]?.text, 'count');
  assert.equal(page.words, 'One, two.');
  page.say('hello');
  await page.settles();
  assert.equal(page.words, 'Hello again.');
  assert.deepEqual(model.request(3).words, ['user: count', 'assistant: One, two.', 'user: hello']);
});

for (const show of [[], ['run'], 'all'])
  scenario(
    `what was shown of a step that a crash cut off is taken back (show: ${JSON.stringify(show)})`,
    {},
    async (world) => {
      const { model, server, version } = world;
      const [again, end] = [gate(), gate()];
      model.script(
        async (pen) => {
          pen.says('One, ');
          pen.says('two, ');
          await pen.gone;
        },
        async (pen) => {
          await again.opened;
          pen.says('Three, ');
          await end.opened;
          pen.says('four.');
        },
      );
      const cut = await world.post('count', { fermata: { client: version, show } });
      await until(
        () => JSON.stringify(cut.chunks).includes('two, '),
        () => `all that the model has said: ${cut.outline}`,
      );
      await server.kill();
      await server.start();
      const goOn = () => world.follow({ 'last-event-id': cut.events.at(-1)?.id ?? '' });
      let rest = await goOn();
      again.open();
      if (version !== 7) {
        await rest.toEnd();
        // It has no chunk that takes back.
        assert.deepEqual([rest.chunks.at(-1)?.type, rest.outline.includes('text')], ['error', false]);
        rest = await goOn();
      }
      end.open();
      await rest.toEnd();
      assert.ok(rest.done, rest.outline);
      if (version !== 7) assert.equal(rest.chunks[0]?.type, 'start', 'it begins again');
      const shown = await messageOf([...(version === 7 ? cut.chunks : []), ...rest.chunks], version);
      const texts = shown.parts.flatMap(({ type, text }) => (type === 'text' ? [text] : []));
      assert.deepEqual(texts, ['Three, four.']);
    },
  );
