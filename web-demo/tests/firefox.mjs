#!/usr/bin/env node
// @ts-check
// The Firefox of the tests. Playwright starts this program instead of FERMATA_FIREFOX itself, and speaks WebDriver BiDi to it.
//
// Playwright sends every new context a command for its colour scheme, and fails if it is unknown. The extended support release does
// not know it, so this program answers it. Preferences in playwright.config.ts set the colours. Everything else passes unchanged.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { WebSocket, WebSocketServer } from 'ws';

const ANSWERED_HERE = 'emulation.setMediaFeaturesOverride';
const ANNOUNCEMENT = /^WebDriver BiDi listening on (?<url>ws:\/\/\S+)$/;

const browser = spawn(process.env.FERMATA_FIREFOX ?? 'firefox', process.argv.slice(2), {
  stdio: ['ignore', 'inherit', 'pipe'],
});
browser.on('error', (error) => {
  console.error(error.message);
  process.exit(1);
});
browser.on('exit', (code) => process.exit(code ?? 1));

for await (const line of createInterface({ input: browser.stderr })) {
  const url = ANNOUNCEMENT.exec(line)?.groups?.url;
  console.error(url === undefined ? line : `WebDriver BiDi listening on ${await relay(url)}`);
}

/**
 * Relays every connection to a browser.
 *
 * @param {string} url of the browser
 * @returns {Promise<string>} the URL to connect to instead
 */
async function relay(url) {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  server.on('connection', (client, { url: path }) => {
    const session = new WebSocket(`${url}${path ?? ''}`);
    const isOpen = once(session, 'open');
    client.addEventListener('message', async ({ data }) => {
      const { id, method } = /** @type {{ id: number, method: string }} */ (JSON.parse(textOf(data)));
      await isOpen;
      if (method === ANSWERED_HERE) client.send(JSON.stringify({ type: 'success', id, result: {} }));
      else session.send(textOf(data));
    });
    session.addEventListener('message', ({ data }) => {
      client.send(textOf(data));
    });
    for (const [one, other] of /** @type {const} */ ([
      [client, session],
      [session, client],
    ])) {
      one.addEventListener('close', () => {
        other.close();
      });
    }
  });
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return `ws://127.0.0.1:${port}`;
}

/**
 * @param {import('ws').Data} data of a text frame
 * @returns {string}
 */
function textOf(data) {
  return /** @type {string} */ (data);
}
