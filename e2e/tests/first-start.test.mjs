// @ts-check
// What somebody meets who starts the server for the first time, with what is in their shell.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { EventStream } from '../harness/events.mjs';
import { FakeOpenAi, refuses } from '../harness/fake-openai.mjs';
import { claimPort, freePort } from '../harness/ports.mjs';
import { Server, binary } from '../harness/server.mjs';
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

test('a server without settings takes the next free port, and says where chats are and how to have a model', async () => {
  await claimPort(3000);
  // Others may use it already: it is taken in either case.
  const taken = createServer();
  await new Promise((resolve) =>
    taken.once('error', resolve).listen(3000, '127.0.0.1', () => resolve(undefined)),
  );
  const server = new Server(0, { FERMATA_BIND: '', DATABASE_URL: '' });
  const found = /listening on http:\/\/127\.0\.0\.1:(\d+), answered by the model demo/;
  try {
    server.launch();
    const [, port] = await until(
      () => found.exec(server.log),
      () => server.log,
    );
    assert.notEqual(port, '3000');
    const words = [
      `port 3000 is taken, so the server listens on port ${port}`,
      `chats are stored in ${server.folder}/fermata.db`,
      'set OPENAI_API_KEY, or OPENAI_BASE_URL and FERMATA_MODEL',
    ];
    await until(
      () => words.every((line) => server.log.includes(line)),
      () => server.log,
    );
    assert.equal((await fetch(`http://127.0.0.1:${port}/healthz`)).status, 200);
  } finally {
    taken.close();
    await server.discard();
  }
});

test('a port that was chosen and is taken is an error', async () => {
  const taken = createServer();
  await new Promise((resolve) => taken.listen(0, '127.0.0.1', () => resolve(undefined)));
  const address = taken.address();
  const port = typeof address === 'object' ? Number(address?.port) : 0;
  const server = new Server(port, {});
  try {
    server.launch();
    const words = `cannot listen on 127.0.0.1:${port}`;
    await until(
      () => server.log.includes(words) && server.exitCode === 1,
      () => server.log,
    );
  } finally {
    taken.close();
    await server.discard();
  }
});

test('init writes a file that the server takes, and overwrites nothing', async () => {
  const server = new Server(0, {});
  try {
    const { code, output } = await server.command('init');
    assert.deepEqual([code, output.split(';')[0]], [0, 'wrote fermata.toml']);
    assert.equal((await server.command('--check')).code, 0);
    const again = await server.command('init');
    assert.equal(again.code, 1);
    assert.match(again.output, /fermata\.toml exists/);
  } finally {
    await server.discard();
  }
});

test('an operator lists chats, reads one and answers a call from a terminal', async () => {
  const token = 'a-token-of-some-length';
  const server = await Server.start({ FERMATA_AUTH: 'token', FERMATA_TOKENS: `ann:${token}` });
  const at = ['--url', server.url, '--token', token];
  try {
    const stream = await EventStream.open(`${server.url}/api/chat`, {
      headers: { authorization: `Bearer ${token}` },
      body: { id: 'shopping', messages: [{ role: 'user', content: 'write a note: buy\u001b[31m milk' }] },
    });
    await stream.sees('tool-approval-request');
    const list = await server.command('chats', ...at);
    assert.match(list.output, /^shopping {2}.*1 waiting {2,}write a note: buy/);
    assert.ok(!list.output.includes('\u001b'), 'a chat cannot write to the terminal');
    const refused = await server.command('chats', '--url', server.url);
    assert.equal(refused.code, 1);
    assert.match(refused.output, /FERMATA_TOKEN/);
    const shown = await server.command('show', 'shopping', ...at);
    assert.match(shown.output, /fermata answer shopping yes --call call_/);
    const unknown = await server.command('answer', 'shopping', 'yes', '--call', 'call_none', ...at);
    assert.match(unknown.output, /call_none of chat shopping does not wait for approval/);
    const answered = await server.command('answer', 'shopping', 'no', '--reason', 'not today', ...at);
    assert.deepEqual(
      [answered.code, /^denied: Write the note/.test(answered.output)],
      [0, true],
      answered.output,
    );
    await stream.toEnd();
    assert.match(JSON.stringify(stream.chunks), /not today/);
    const late = await server.command('answer', 'shopping', 'yes', ...at);
    assert.match(late.output, /no call of chat shopping waits for approval/);
  } finally {
    await server.discard();
  }
});

test('the manual page and the completions of shells come from the program', async () => {
  const server = new Server(0, {});
  try {
    assert.match((await server.command('man')).output, /^\.ie[\s\S]*\.TH fermata 1/);
    for (const shell of ['bash', 'zsh', 'fish'])
      assert.match(
        (await server.command('completions', shell)).output,
        /policy[\s\S]*answer|answer[\s\S]*policy/,
      );
  } finally {
    await server.discard();
  }
});

test('a second server on the same SQLite file is refused, and the first one goes on', async () => {
  const server = await Server.start({});
  const second = new Server(await freePort(), { DATABASE_URL: `sqlite://${server.folder}/chats.db` });
  try {
    second.launch();
    await until(
      () => second.exitCode === 1 && second.log.includes('another server uses the database'),
      () => second.log,
    );
    assert.ok(second.log.includes(`(process ${server.pid})`), second.log);
    const { text } = await say(server);
    assert.match(text, /\[DONE\]/);
    // The system lets go of the file, however the first one ends.
    await server.kill();
    second.launch();
    await until(
      () =>
        fetch(`${second.url}/healthz`)
          .then(({ ok }) => ok)
          .catch(() => false),
      () => second.log,
    );
  } finally {
    await second.discard();
    await server.discard();
  }
});

test('a server ends with its terminal, and SIGHUP in an open terminal is a reload', async () => {
  const port = await freePort();
  const server = new Server(port, {});
  // `script` gives the command a terminal, and types nothing.
  const terminal = spawn('script', ['-qec', `exec ${binary()}`, '/dev/null'], {
    cwd: server.folder,
    env: { ...process.env, FERMATA_BIND: `127.0.0.1:${port}`, FERMATA_DRAIN: '1s' },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let log = '';
  terminal.stdout.on('data', (/** @type {Buffer} */ bytes) => {
    log += bytes.toString('utf8');
  });
  const isUp = () =>
    fetch(`http://127.0.0.1:${port}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    );
  try {
    await until(isUp, () => log);
    const id = Number(readFileSync(`${server.folder}/fermata.db-lock`, 'utf8'));
    process.kill(id, 'SIGHUP');
    await until(
      () => log.includes('read the settings again'),
      () => log,
    );
    assert.ok(await isUp(), log);
    terminal.kill('SIGKILL');
    await until(async () => !(await isUp()), 'the end of the server');
  } finally {
    terminal.kill('SIGKILL');
    await server.discard();
  }
});

test('an Ollama server on this machine is mentioned if no model is set, with the variables that use it', async (context) => {
  const ollama = createHttpServer((request, response) => {
    if (request.url !== '/api/tags') response.writeHead(404).end();
    else response.end(JSON.stringify({ models: [{ name: 'qwen3:4b', size: 1 }] }));
  });
  const isFree = await new Promise((resolve) => {
    ollama.once('error', () => resolve(false)).listen(11434, '127.0.0.1', () => resolve(true));
  });
  if (!isFree) {
    context.skip('there is an Ollama here');
    return;
  }
  const words = 'OPENAI_BASE_URL=http://127.0.0.1:11434/v1 FERMATA_MODEL=qwen3:4b uses it';
  const [unset, set] = [
    new Server(await freePort(), {}),
    new Server(await freePort(), { OPENAI_API_KEY: 'sk-test' }),
  ];
  try {
    await Promise.all([unset.start(), set.start()]);
    await until(
      () => unset.log.includes(words),
      () => unset.log,
    );
    assert.ok(!set.log.includes('Ollama'), set.log);
  } finally {
    ollama.close();
    ollama.closeAllConnections();
    await Promise.all([unset.discard(), set.discard()]);
  }
});
