// What each test has: a model API that plays a script and is strict about it, the built server behind it, and
// pages of one browser in front. Whatever a test is about, three things hold at its end: the model API has
// nothing to complain of, the server is alive, and no page has logged an error, broken its content security
// policy or thrown, unless the test said so.

import { readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { test as base, expect, type BrowserContext, type Page } from '@playwright/test';
import { API_KEY, FakeOpenAi } from '../../e2e/harness/fake-openai.mjs';
import { byHand } from '../../e2e/harness/mcp.mjs';
import { freePort } from '../../e2e/harness/ports.mjs';
import { Server } from '../../e2e/harness/server.mjs';
import { gate, until } from '../../e2e/harness/until.mjs';
import { ChatPage } from './chat-page';

export { expect } from '@playwright/test';
export { calls, says, refuses, type Pen } from '../../e2e/harness/fake-openai.mjs';
export { byHand, journal, letGo, times } from '../../e2e/harness/mcp.mjs';
export { gate, until };
export { ChatPage } from './chat-page';

/** The two pages, each at its path. */
export const PAGES = [
  { name: 'the plain page', path: '/' },
  { name: 'the assistant-ui page', path: '/assistant-ui' },
] as const;

export interface Options {
  /** Environment variables of the server. */
  settings: Record<string, string>;
  /** What its `fermata.toml` says. */
  config: string;
  /** Whether it has the MCP server by hand, as `hand`. */
  hand: boolean;
  /** Whether the demo model answers instead of the scripted one. */
  demoModel: boolean;
  /** The path of the page under test. */
  path: string;
}

export interface World {
  model: FakeOpenAi;
  server: Server;
  /** What pages may log in this test, besides nothing. */
  mayLog: (...messages: RegExp[]) => void;
  /** Opens a chat in a new tab of the same browser. */
  tab: (chat?: string, path?: string) => Promise<ChatPage>;
  /** Has pages of another context watched, too. */
  watch: (context: BrowserContext) => Promise<void>;
}

/** What a browser says about a request that failed, or that the server refused. */
export const FAILED_REQUEST = /Failed to load resource/;

/** Serves the pages from this folder, where it is given, and not from the binary. */
const DEMO = process.env['FERMATA_DEMO'];
const LOG_LINES = 30;

export const test = base.extend<Options & { world: World; chat: ChatPage }>({
  settings: [{}, { option: true }],
  config: ['', { option: true }],
  hand: [false, { option: true }],
  demoModel: [false, { option: true }],
  path: ['/', { option: true }],

  world: async ({ settings, config, hand, demoModel, path, context, browserName }, use, info) => {
    const model = await FakeOpenAi.start();
    const api = demoModel
      ? {}
      : { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: API_KEY, FERMATA_MODEL: 'test-model' };
    const server = new Server(await freePort(), { ...api, ...settings });
    const faults = new Faults();
    const watch = async (watched: BrowserContext) => {
      await faults.watch(watched);
      if (browserName === 'firefox') await watched.addInitScript(insertAsTyped);
      if (DEMO !== undefined) await serveFrom(DEMO, watched, server.url);
    };
    try {
      server.configure(config + (hand ? byHand(server) : ''));
      await server.start();
      await watch(context);
      await use({
        model,
        server,
        mayLog: (...messages) => {
          faults.allowed.push(...messages);
        },
        tab: async (chat, at = path) => ChatPage.open(await context.newPage(), server.url, at, chat),
        watch,
      });
      if (info.status === info.expectedStatus) {
        expect(faults.found, 'what the pages logged').toEqual([]);
        expect(model.verdict, 'faults of the requests that the model was sent').toEqual([]);
        expect(server.alive, 'the server is alive').toBe(true);
      } else {
        for (const line of server.log.split('\n').slice(-LOG_LINES)) console.log(line);
        for (const fault of [...faults.found, ...model.verdict]) console.log(fault);
      }
    } finally {
      await context.close();
      await server.discard();
      await model.stop();
    }
  },

  /** A chat in the first tab. */
  chat: async ({ world, path, page }, use) => {
    await use(await ChatPage.open(page, world.server.url, path));
  },
});

/**
 * Over WebDriver BiDi, Playwright fills a field with this function of the page. Its own one sets the field's value, and React does not
 * notice that.
 */
function insertAsTyped() {
  const insert = (text: string) => {
    const field = document.activeElement;
    if (!(field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement))
      throw new Error('the cursor is in no field');
    field.setRangeText(text, field.selectionStart ?? 0, field.selectionEnd ?? 0, 'end');
    field.dispatchEvent(new InputEvent('input', { data: text, bubbles: true, composed: true }));
  };
  Object.defineProperty(window, '__pw_bidiInsertText', {
    get: () => insert,
    set: () => undefined,
  });
}

/** What pages complained of. */
class Faults {
  readonly allowed: RegExp[] = [];
  readonly #all: string[] = [];

  get found(): string[] {
    return this.#all.filter((fault) => !this.allowed.some((allowed) => allowed.test(fault)));
  }

  async watch(context: BrowserContext) {
    context.on('console', (message) => {
      if (message.type() === 'error') this.#all.push(`${message.text()} (${message.location().url})`);
    });
    context.on('weberror', (error) =>
      this.#all.push(`thrown: ${error.error().stack ?? error.error().message}`),
    );
    await context.addInitScript(() => {
      document.addEventListener('securitypolicyviolation', (event) => {
        console.error(
          `the content security policy was broken: ${event.violatedDirective} ${event.blockedURI} at ` +
            `${event.sourceFile}:${event.lineNumber}:${event.columnNumber}`,
        );
      });
    });
  }
}

const TYPES: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};

/** The policy of a page among the assets. The binary has none of this name, so it cannot be asked. */
const FRAME_POLICY =
  "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; frame-ancestors 'self'";

/** Serves what Vite has built, under the policy that the binary sends with its own. */
async function serveFrom(folder: string, context: BrowserContext, url: string) {
  const policy = (await fetch(url)).headers.get('content-security-policy') ?? '';
  const isOfDemo = ({ pathname }: URL) =>
    /^\/($|assets\/|assistant-ui$|inbox$|gallery$|[^/]+\.(js|svg)$)/.test(pathname);
  await context.route(isOfDemo, async (route) => {
    const { pathname } = new URL(route.request().url());
    const file = pathname === '/' ? 'index.html' : extname(pathname) === '' ? `${pathname}.html` : pathname;
    const headers = {
      'content-security-policy': /^\/assets\/.*\.html$/.test(pathname) ? FRAME_POLICY : policy,
      'content-type': TYPES[extname(file)] ?? 'application/octet-stream',
    };
    await route.fulfill({ body: readFileSync(join(folder, file)), headers });
  });
}

/** A chat that the server imports as a record, without asking the model. */
export async function importHistory(
  world: World,
  id: string,
  messages: object[],
  headers: Record<string, string> = {},
) {
  const response = await fetch(`${world.server.url}/api/chat`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ id, messages, fermata: { client: 7 } }),
  });
  await response.text();
  return response.status;
}

/** Begins a chat as somebody else, and goes away when the calls of its first step wait. */
export async function park(world: World, id: string, words: string, client = 7) {
  const response = await fetch(`${world.server.url}/api/chat`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ id, messages: [{ role: 'user', content: words }], fermata: { client } }),
  });
  const isParked = async () => {
    const { pending } = (await (await fetch(`${world.server.url}/api/chat/${id}`)).json()) as {
      pending: unknown[];
    };
    return pending.length > 0;
  };
  await until(isParked, `a call of ${id} to wait`);
  await response.body?.cancel();
}

/** Every violation of a rule of axe that a person would stumble over. */
export async function seriousViolations(page: Page): Promise<string[]> {
  const { AxeBuilder } = await import('@axe-core/playwright');
  const axe = new AxeBuilder({ page }).options({
    rules: { 'label-content-name-mismatch': { enabled: true } },
  });
  const { violations } = await axe.analyze();
  return violations
    .filter(({ impact }) => impact !== 'minor')
    .flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html} ${node.failureSummary ?? ''}`));
}
