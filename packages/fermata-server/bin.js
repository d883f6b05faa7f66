#!/usr/bin/env node
// Becomes the server: the binary that npm has installed for this platform.

import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import process from 'node:process';

const platform = `${process.platform}-${process.arch}`;
const binary = find();
const given = process.argv.slice(2);

// Node.js 22.15 and later: the launcher is gone, so signals and the exit status are those of the server.
if (process.execve) process.execve(binary, [binary, ...given], process.env);

const server = spawn(binary, given, { stdio: 'inherit' });
server.on('error', (error) => fail(`${binary} does not start: ${error.message}`));
// A terminal sends SIGINT to both. At a second one the server would end without finishing its work.
process.on('SIGINT', () => {});
for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => server.kill(signal));
server.on('exit', (code, signal) => {
  if (signal === null) process.exit(code ?? 1);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});

function find() {
  try {
    return createRequire(import.meta.url).resolve(`fermata-server-${platform}/fermata`);
  } catch {
    if (process.platform === 'win32') fail('Fermata runs on Windows in WSL (https://aka.ms/wsl).');
    fail(
      `the binary for ${platform} is not installed. It is an optional dependency, for Linux (x64 and arm64, with glibc 2.28 or later) ` +
        'and macOS (arm64 and x64): install fermata-server again, without --omit=optional.',
    );
  }
}

function fail(reason) {
  console.error(`fermata-server: ${reason}`);
  process.exit(1);
}
