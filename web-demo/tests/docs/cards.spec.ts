// The cards in a project of somebody else, as docs/guide/cards.md has it: shadcn's own command line adds them to a project with Vite,
// React and Tailwind, in which TypeScript checks them, Vite builds them, and a browser shows them in front of the built server.

import { execFile } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from '@playwright/test';
import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { registryItemSchema, registrySchema } from 'shadcn/schema';
import { build, preview, type InlineConfig, type PreviewServer } from 'vite';
import { Server } from '../../../e2e/harness/server.mjs';
import { REGISTRY_ITEMS } from '../../registry/registry';
import { seriousViolations } from '../world';
import { COPY, installed, MODULES, PRINTED_ADDRESS, printedFiles, section } from './example';
import { View } from './view';

const run = promisify(execFile);
const PAGE = 'cards.md';

/** The packages of a new project, and those of a page with a chat. */
const PACKAGES = [
  'react',
  'react-dom',
  '@types/react',
  '@types/react-dom',
  'typescript',
  'vite',
  'tailwindcss',
  'fermata-chat',
  '@ai-sdk/react',
  'ai',
];

/** What `npm create vite` and `npx shadcn init` write. */
const FILES: Record<string, string> = {
  'index.html':
    '<!doctype html><html lang="en"><title>Chat</title><link rel="icon" href="data:," /><script type="module" src="/src/main.tsx"></script></html>',
  'src/main.tsx': `import { createRoot } from 'react-dom/client';
import { ChatPage } from './ChatPage';
import './index.css';

createRoot(document.body.appendChild(document.createElement('div'))).render(<ChatPage id={crypto.randomUUID()} />);
`,
  'src/index.css': '@import "tailwindcss";\n',
  'components.json': JSON.stringify({
    style: 'new-york',
    rsc: false,
    tsx: true,
    tailwind: { config: '', css: 'src/index.css', baseColor: 'neutral', cssVariables: true },
    aliases: { components: '@/components', utils: '@/lib/utils' },
    iconLibrary: 'lucide',
  }),
  'tsconfig.json': JSON.stringify({
    compilerOptions: {
      target: 'es2023',
      lib: ['es2023', 'dom'],
      module: 'esnext',
      types: ['vite/client'],
      skipLibCheck: true,
      moduleResolution: 'bundler',
      allowImportingTsExtensions: true,
      verbatimModuleSyntax: true,
      moduleDetection: 'force',
      noEmit: true,
      jsx: 'react-jsx',
      strict: true,
      noUnusedLocals: true,
      noUnusedParameters: true,
      erasableSyntaxOnly: true,
      noFallthroughCasesInSwitch: true,
      paths: { '@/*': ['./src/*'] },
    },
    include: ['src'],
  }),
};

const fileOf = (name: string) => readFileSync(path.join(COPY, 'r', name), 'utf8');
const itemOf = (name: string) => registryItemSchema.parse(JSON.parse(fileOf(`${name}.json`)));

/**
 * The registry as a server sends it. Beside it is the only file that the command line asks shadcn's own registry for: the colours of
 * the project, which no card uses.
 */
async function serveRegistry(): Promise<HttpServer> {
  const colours = JSON.stringify({
    inlineColors: { light: {}, dark: {} },
    cssVars: {},
    inlineColorsTemplate: '',
    cssVarsTemplate: '',
  });
  const server = createServer(({ url = '' }, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(url === '/r/colors/neutral.json' ? colours : fileOf(path.basename(url)));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

class Project {
  readonly folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'fermata-cards-')));
  #served: PreviewServer | undefined;

  constructor() {
    const files = new Map([...Object.entries(FILES), ...printedFiles(section(PAGE, undefined))]);
    for (const [file, content] of files) writeFileSync(this.#at(file), content);
  }

  /** Adds what the page says to add. The packages are here already, so nothing is downloaded. */
  async add(address: string) {
    const command = /^npx shadcn add ((?:.*\\\n)*.*)$/m.exec(section(PAGE, undefined))?.[1] ?? '';
    const urls = command.replaceAll(PRINTED_ADDRESS, address).split(/[\s\\]+/);
    const names = urls.map((url) => path.basename(url, '.json'));
    const packages = [...new Set([...PACKAGES, ...names.flatMap((name) => itemOf(name).dependencies ?? [])])];
    writeFileSync(
      this.#at('package.json'),
      JSON.stringify({
        type: 'module',
        dependencies: Object.fromEntries(packages.map((name) => [name, '*'])),
      }),
    );
    for (const name of packages) symlinkSync(installed(name, undefined), this.#at(`node_modules/${name}`));
    const shadcn = path.join(MODULES, 'shadcn/dist/index.js');
    await run(process.execPath, [shadcn, 'add', ...urls, '--yes', '--cwd', this.folder], {
      env: { ...process.env, REGISTRY_URL: `${address}/r` },
    });
    return names;
  }

  async checkTypes() {
    const tsc = path.join(MODULES, 'typescript/bin/tsc');
    const { stdout } = await run(process.execPath, [tsc], { cwd: this.folder }).catch(
      (error: unknown) => error as { stdout: string },
    );
    expect(stdout).toBe('');
  }

  async serve(server: string): Promise<string> {
    const config: InlineConfig = {
      root: this.folder,
      configFile: false,
      logLevel: 'error',
      plugins: [react(), tailwindcss()],
      resolve: { alias: { '@': path.join(this.folder, 'src') } },
      preview: { host: '127.0.0.1', port: 0, proxy: { '/api': server } },
    };
    await build(config);
    this.#served = await preview(config);
    return this.#served.resolvedUrls?.local[0] ?? '';
  }

  async discard() {
    await this.#served?.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  #at(file: string): string {
    const at = path.join(this.folder, file);
    mkdirSync(path.dirname(at), { recursive: true });
    return at;
  }
}

test('the registry and its items are what shadcn reads', () => {
  const registry = registrySchema.parse(JSON.parse(fileOf('registry.json')));
  expect(registry.items.map(({ name }) => name)).toEqual(REGISTRY_ITEMS);
  for (const { name, files: listed = [] } of registry.items) {
    const { files = [], type } = itemOf(name);
    expect(type).toBe('registry:component');
    expect(files.map((file) => file.path)).toEqual(listed.map((file) => file.path));
    for (const { content } of files) expect(content).not.toBe('');
  }
});

test.describe('a project with the cards', () => {
  // One after the other in one process: the cards are added once.
  test.describe.configure({ mode: 'default' });
  let server: Server | undefined;
  let registry: HttpServer | undefined;
  let project: Project;
  let added: string[] = [];

  test.beforeAll(async () => {
    test.setTimeout(120_000);
    registry = await serveRegistry();
    project = new Project();
    added = await project.add(`http://127.0.0.1:${(registry.address() as AddressInfo).port}`);
    server = await Server.start({});
  });
  test.afterAll(async () => {
    await (project as Project | undefined)?.discard();
    await server?.discard();
    registry?.close();
  });

  test('has every file of the items, with its types right', async () => {
    test.setTimeout(120_000);
    expect(added).toEqual(expect.arrayContaining(['approval-card', 'plan', 'question']));
    for (const { target = '' } of added.flatMap((name) => itemOf(name).files ?? []))
      expect(readFileSync(path.join(project.folder, 'src', target), 'utf8')).not.toBe('');
    await project.checkTypes();
  });

  test('shows calls, their approval, a question and a plan in a browser', async ({ page }) => {
    const faults: string[] = [];
    page.on('pageerror', (error) => faults.push(String(error)));
    page.on('console', (message) => {
      if (message.type() === 'error') faults.push(message.text());
    });
    await page.goto(await project.serve(server?.url ?? ''));
    const view = new View(page);
    const card = (tool: string) => page.getByRole('article', { name: `Tool call ${tool}` }).last();

    await view.say('write a note: buy milk');
    await expect(card('write_note').getByText('Waiting for you')).toBeVisible();
    expect(await seriousViolations(page)).toEqual([]);
    // The colours and the fields come with the cards.
    await expect(card('write_note')).toHaveCSS('background-color', 'rgb(255, 255, 255)');
    await view.press('Edit', card('write_note'));
    const title = card('write_note').getByRole('textbox', { name: /^title/i });
    await expect(title).toHaveCSS('border-top-color', 'rgb(135, 131, 122)');
    await title.selectText();
    await title.pressSequentially('oat milk');
    await view.press('Approve with these changes', card('write_note'));
    await expect(card('write_note').getByText(/^Done/)).toBeVisible();
    await view.shows(/your version, “oat milk”/);

    await view.say('book a table');
    const question = page.getByRole('article', { name: 'Question' });
    await expect(question.getByText('Waiting for you')).toBeVisible();
    expect(await seriousViolations(page)).toEqual([]);
    await view.press('Send', question);
    await view.shows(/A table on Friday for 2/);

    await view.say('search my notes for tea and write a list');
    const plan = page.getByRole('group', { name: 'Plan', exact: true });
    await view.press('Approve', card('make_plan'));
    await expect(plan.getByRole('listitem').first()).toHaveText(/Done: Search the notes for tea/);
    await view.press('Approve', card('write_note'));
    await expect(plan).toHaveAttribute('data-plan', 'done');
    expect(await seriousViolations(page)).toEqual([]);
    expect(faults).toEqual([]);
  });
});
