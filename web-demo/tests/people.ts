// The inbox in front of a fake server: the built pages, and the approvals of packages/fermata-chat/tests/approvals.ts. At the end of each
// test, no page has logged an error, violated its content security policy or thrown, unless the test allows it.

import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test as base, expect, type Locator, type Page } from '@playwright/test';
import { ApprovalServer } from '../../packages/fermata-chat/tests/approvals';

export { expect };
export { approval } from '../../packages/fermata-chat/tests/approvals';

const DIST = resolve(import.meta.dirname, '../dist');
const TYPES: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};
/** The content security policy that the server sends with its pages. */
const POLICY =
  "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' data: blob:; " +
  "font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const GROUPS = { alice: ['finance'], bob: ['finance'], carol: [], dave: [] };

export class InboxPage {
  constructor(
    readonly page: Page,
    readonly url: string,
  ) {}

  async open(query = '') {
    await this.page.goto(`${this.url}/inbox${query}`);
    await expect(this.page.getByRole('heading', { level: 1 })).toBeVisible();
  }

  /** The cards that are shown, in their order. */
  get cards(): Locator {
    return this.page.getByRole('article');
  }

  /** The card of a call that has these words. */
  card(words: string): Locator {
    return this.cards.filter({ hasText: words });
  }

  press(name: string, within: Locator | Page = this.page) {
    return within.getByRole('button', { name, exact: true }).click();
  }
}

export interface People {
  approvals: ApprovalServer;
  /** The user whose page it is. */
  user: string;
  /** The key for push notifications; `undefined` if the server sends none. */
  pushKey: string | undefined;
  /** The errors that pages may log in this test. */
  mayLog: RegExp[];
}

export const test = base.extend<{ people: People; inbox: InboxPage }>({
  people: async ({ context }, use, info) => {
    const people: People = {
      approvals: new ApprovalServer(GROUPS),
      user: 'alice',
      pushKey: 'BAECAw',
      mayLog: [],
    };
    const faults: string[] = [];
    context.on('console', (message) => {
      if (message.type() === 'error') faults.push(message.text());
    });
    context.on('weberror', (error) => faults.push(`thrown: ${error.error().message}`));
    await use(people);
    const found = faults.filter((fault) => !people.mayLog.some((allowed) => allowed.test(fault)));
    if (info.status === info.expectedStatus) expect(found, 'what the pages logged').toEqual([]);
  },

  inbox: async ({ people, page }, use) => {
    const server = createServer((request, response) => {
      void answer(people, request, response);
    });
    await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
    const { port } = server.address() as AddressInfo;
    // The day of the approvals.
    await page.clock.setFixedTime(new Date('2026-03-02T15:00:00Z'));
    await use(new InboxPage(page, `http://127.0.0.1:${port}`));
    await page.close();
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
  },
});

async function answer(people: People, request: IncomingMessage, response: ServerResponse) {
  const { pathname, search } = new URL(request.url ?? '/', 'http://server');
  if (!pathname.startsWith('/api/')) {
    sendFile(pathname, response);
    return;
  }
  if (pathname === '/api/tools') {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ tools: TOOLS }));
    return;
  }
  if (pathname === '/api/push') {
    const { pushKey: publicKey } = people;
    response.writeHead(publicKey === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(publicKey === undefined ? { code: 'not_found', detail: '' } : { publicKey }));
    return;
  }
  const gone = new AbortController();
  response.on('close', () => {
    gone.abort();
  });
  const body = await text(request);
  const headers = Object.fromEntries(
    Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
  );
  const reply = await people.approvals.as(people.user)(`${pathname}${search}`, {
    method: request.method ?? 'GET',
    headers,
    signal: gone.signal,
    ...(body !== '' && { body }),
  });
  response.writeHead(reply.status, Object.fromEntries(reply.headers));
  if (reply.body === null) response.end();
  else
    Readable.fromWeb(reply.body as Parameters<typeof Readable.fromWeb>[0])
      // The page has gone away.
      .on('error', () => response.end())
      .pipe(response);
}

function sendFile(pathname: string, response: ServerResponse) {
  const file = pathname === '/' ? 'index.html' : extname(pathname) === '' ? `${pathname}.html` : pathname;
  response.setHeader('content-security-policy', POLICY);
  response.setHeader('content-type', TYPES[extname(file)] ?? 'application/octet-stream');
  response.end(readFileSync(resolve(DIST, `./${file}`)));
}

const TOOLS = [
  {
    name: 'refund',
    description: '',
    inputSchema: {
      type: 'object',
      properties: { order: { type: 'integer' }, amount: { type: 'number' } },
      required: ['order', 'amount'],
    },
    runBy: 'server',
    policy: 'ask',
  },
];
