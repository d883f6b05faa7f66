// @ts-check
// What somebody meets who starts the server for the first time, with what is in their shell.

import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { FakeOpenAi, refuses } from '../harness/fake-openai.mjs';
import { Server } from '../harness/server.mjs';
import { until } from '../harness/until.mjs';

/**
 * @param {Server} server
 * @param {Record<string, string>} [headers]
 */
async function say(server, headers = {}) {
  const response = await fetch(`${server.url}/api/chat`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }] }),
  });
  return { response, text: await response.text() };
}

/**
 * The log as objects.
 *
 * @param {Server} server
 * @returns {Record<string, any>[]}
 */
const logged = (server) =>
  server.log
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

/** The address of a port without a listener. */
async function deadUrl() {
  const listener = createServer();
  await new Promise((resolve) => listener.listen(0, '127.0.0.1', () => resolve(undefined)));
  const address = listener.address();
  await new Promise((resolve) => listener.close(resolve));
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/v1`;
}

test('a key alone is enough, and the log says which model is asked for', async () => {
  const server = await Server.start({ OPENAI_API_KEY: 'sk-test' });
  try {
    const words = /the default model of this API is asked for: gpt-5-mini/;
    await until(() => words.test(server.log), 'the name of the model in the log');
    assert.ok(!server.log.includes('sk-test'));
  } finally {
    await server.discard();
  }
});

test('an API that cannot be reached is named on the page and in the log', async () => {
  const url = await deadUrl();
  const server = await Server.start({ OPENAI_BASE_URL: url, FERMATA_MODEL: 'm', FERMATA_LOG: 'json' });
  try {
    const { text } = await say(server);
    assert.match(text, /"type":"error","errorText":"The model provider cannot be reached\./);
    assert.ok(text.includes(url), text);
    const failed = () => logged(server).find(({ message }) => message === 'the run failed');
    const failure = await until(failed, 'the log');
    assert.ok(failure.error.includes(url), JSON.stringify(failure));
  } finally {
    await server.discard();
  }
});

test('strangers are not told what the provider says', async () => {
  const url = await deadUrl();
  const token = 'a-token-of-some-length';
  const server = await Server.start({
    OPENAI_BASE_URL: url,
    FERMATA_MODEL: 'm',
    FERMATA_AUTH: 'token',
    FERMATA_TOKENS: `ann:${token}`,
  });
  try {
    const { text } = await say(server, { authorization: `Bearer ${token}` });
    assert.match(
      text,
      /"errorText":"The model provider cannot be reached\. Try again in a moment, or tell the operator/,
    );
    assert.ok(!text.includes(url), text);
  } finally {
    await server.discard();
  }
});

test('what the provider refuses is said with its URL and without the key', async () => {
  const model = await FakeOpenAi.start();
  model.script(refuses(404));
  const server = await Server.start({
    OPENAI_BASE_URL: model.url,
    OPENAI_API_KEY: 'sk-never-show-this',
    FERMATA_MODEL: 'no-such-model',
  });
  try {
    const { text } = await say(server);
    assert.match(
      text,
      /"type":"error","errorText":"The model provider refused this conversation\. The cause: /,
    );
    assert.ok(text.includes('404') && text.includes(model.url), text);
    assert.ok(!text.includes('sk-never'), text);
  } finally {
    await server.discard();
    await model.stop();
  }
});

test('a request has an id, which its lines in the log repeat', async () => {
  const server = await Server.start({
    FERMATA_LOG: 'json',
    RUST_LOG: 'debug,hyper_util=warn',
    FERMATA_MAX_STPES: '3',
  });
  try {
    const { response } = await say(server, { 'x-request-id': 'from-the-proxy-1' });
    assert.equal(response.headers.get('x-request-id'), 'from-the-proxy-1');
    const isAnswer = (/** @type {Record<string, any>} */ { message, spans }) =>
      message === 'answered a request' &&
      spans?.some((/** @type {any} */ { id }) => id === 'from-the-proxy-1');
    const answered = await until(() => logged(server).find(isAnswer), 'the line of the request');
    assert.equal(answered.route, '/api/chat');
    const lines = logged(server);
    const warnings = lines.filter(({ level }) => level === 'WARN').map(({ message }) => message);
    assert.deepEqual(warnings, [
      'FERMATA_MAX_STPES is set, but there is no such setting; did you mean FERMATA_MAX_STEPS?',
    ]);
  } finally {
    await server.discard();
  }
});
