// Starts the Fermata server, and then the page: node dev.mjs vite
// Without a command, it starts the server alone. If one of the two ends, or you press Ctrl-C, both end.

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';

if (existsSync('.env')) process.loadEnvFile('.env');

const { FERMATA_PORT: port = '4000', FERMATA_URL: _, ...environment } = process.env;
const url = `http://127.0.0.1:${port}`;
const [page, ...pageArguments] = process.argv.slice(2);

const running = new Set();
let isEnding = false;

function start(command, given, env) {
  // A child in the process group of the terminal would get the signal of Ctrl-C twice, from the terminal and from here. And closing the
  // terminal would leave the server behind: for it, SIGHUP means to read its settings again.
  const child = spawn(command, given, { env, stdio: ['ignore', 'inherit', 'inherit'], detached: true });
  running.add(child);
  child.once('error', (error) => {
    running.delete(child);
    console.error(
      error.code === 'ENOENT' ? `${command} is missing. Run npm install, then npm run dev.` : error.message,
    );
    end(1);
  });
  child.once('exit', (status) => {
    running.delete(child);
    end(status ?? 1);
  });
}

function end(status) {
  if (isEnding) return;
  isEnding = true;
  process.exitCode = status;
  for (const child of running) child.kill('SIGTERM');
  // A process that does not end by itself must not keep the port.
  const kill = () => running.forEach((child) => process.kill(-child.pid, 'SIGKILL'));
  setTimeout(kill, 10_000).unref();
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => end(0));

// An answer that is being written delays the end. In development, five seconds are enough.
start('fermata-server', ['--port', port], { FERMATA_DRAIN: '5s', ...environment });

if (page !== undefined) {
  const isServing = () =>
    fetch(`${url}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    );
  while (!isEnding && !(await isServing())) await sleep(100);
  if (!isEnding) start(page, pageArguments, { ...environment, FERMATA_URL: url });
}
