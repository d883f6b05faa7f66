// The whole example of a page under docs/guide/, as somebody who reads it has it: the files that the page prints,
// the helper that it says to copy, and the packages that it says to install, nothing else. It is checked by
// TypeScript, built by Vite and served.
//
// A page prints a file as a fenced block with a `title`, its path. Where a page has several examples, each
// has a heading, and what is above all headings belongs to all of them. Only the address of the server
// differs from what is printed.

import { execFileSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { build, preview, type PreviewServer } from 'vite';

export const WEB_DEMO = path.resolve(import.meta.dirname, '../..');
/** Where the packages of the pages are installed. */
export const MODULES = path.resolve(WEB_DEMO, '../node_modules');
/** What a page says to copy. */
export const COPY = path.resolve(WEB_DEMO, 'dist');
const DOCS = path.resolve(WEB_DEMO, '../docs/guide');
export const PRINTED_ADDRESS = 'http://127.0.0.1:3000';

/** How strictly the examples are checked, whatever the reader's own settings are. */
const STRICT = {
  target: 'es2022',
  lib: ['es2023', 'dom', 'dom.iterable'],
  module: 'esnext',
  moduleResolution: 'bundler',
  jsx: 'react-jsx',
  types: [],
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  noUnusedLocals: true,
  noUnusedParameters: true,
  verbatimModuleSyntax: true,
  isolatedModules: true,
  skipLibCheck: true,
  noEmit: true,
};

/** What a page prints before its first heading and under one; all of it where no heading is named. */
export function section(page: string, heading: string | undefined): string {
  const text = readFileSync(path.join(DOCS, page), 'utf8');
  if (heading === undefined) return text;
  const [shared = '', ...parts] = text.split(/^(?=## )/m);
  const found = parts.find((part) => part.startsWith(`## ${heading}\n`));
  if (found === undefined) throw new Error(`docs/guide/${page} has no heading "${heading}"`);
  return shared + found;
}

/** What an application with React has anyway. */
const REACT_APPLICATION = [
  'react',
  'react-dom',
  '@types/react',
  '@types/react-dom',
  'typescript',
  'vite',
  '@vitejs/plugin-react',
];

/** The files that a text prints, by path. */
export function printedFiles(text: string): Map<string, string> {
  const blocks = [...text.matchAll(/^```\w+ title="([^"]+)"\n([\s\S]*?)^```$/gm)];
  return new Map(blocks.map(([, file = '', content = '']) => [file, content]));
}

/** The packages that a text says to install, and the versions that it names. */
export function printedPackages(text: string): [name: string, version: string | undefined][] {
  const lines = [...text.matchAll(/^npm install (?:--save-dev )?(.*)$/gm)].flatMap(([, packages = '']) =>
    packages.split(' '),
  );
  return lines.map((named) => {
    const at = named.lastIndexOf('@');
    return at < 1 ? [named, undefined] : [named.slice(0, at), named.slice(at + 1)];
  });
}

/** Where a package is installed here, in that version if one is given: by itself, or for the framework's own package. */
export function installed(name: string, version: string | undefined): string {
  const places = [name, ...['vue', 'svelte'].map((framework) => `@ai-sdk/${framework}/node_modules/${name}`)];
  for (const place of places) {
    const folder = path.join(MODULES, place);
    try {
      const { version: found } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) as {
        version: string;
      };
      if (version === undefined || found === version) return realpathSync(folder);
    } catch {
      continue;
    }
  }
  throw new Error(`${name}@${version ?? 'any'} is not installed`);
}

export interface ExampleOptions {
  /** The file under docs/guide/. */
  page: string;
  /** The heading of its section, where a page has several examples. */
  heading?: string;
  /** The files of the helper that it is to be copied beside. */
  helper: Record<string, string>;
  /** What checks its types; arguments included. */
  check: string[];
  /** Files that take the place of others. */
  instead?: Record<string, string>;
}

export class Example {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'fermata-docs-'));
  #served: PreviewServer[] = [];

  constructor(
    readonly options: ExampleOptions,
    server: string,
  ) {
    const text = section(options.page, options.heading);
    this.#write('package.json', JSON.stringify({ type: 'module' }));
    this.#write('tsconfig.json', JSON.stringify({ compilerOptions: STRICT, include: ['src'] }));
    for (const [file, content] of printedFiles(text))
      this.#write(file, content.replaceAll(PRINTED_ADDRESS, server));
    for (const [file, source] of Object.entries(options.helper))
      cpSync(path.join(COPY, source), this.#at(file));
    for (const [file, other] of Object.entries(options.instead ?? {}))
      cpSync(this.#at(other), this.#at(file));
    const packages = new Map(printedPackages(text));
    if (packages.has('@ai-sdk/react'))
      for (const name of REACT_APPLICATION) packages.set(name, packages.get(name));
    for (const [name, version] of packages)
      symlinkSync(installed(name, version), this.#at(`node_modules/${name}`));
  }

  /** Has its types checked; throws what the checker says. */
  checkTypes() {
    const [command = '', ...rest] = this.options.check;
    try {
      execFileSync(path.join(MODULES, '.bin', command), rest, {
        cwd: this.folder,
        encoding: 'utf8',
        stdio: 'pipe',
      });
    } catch (error) {
      const { stdout, stderr } = error as { stdout: string; stderr: string };
      throw new Error(`${this.options.page}: ${stdout}${stderr}`, { cause: error });
    }
  }

  async build() {
    // With the checks that frameworks make while one develops, such as React's second run of every effect.
    process.env['NODE_ENV'] = 'development';
    await build({ ...this.#settings, mode: 'development', logLevel: 'error' });
  }

  /**
   * Serves it; where it is to be seen. Another server than the one that its settings name may be behind it.
   */
  async serve(server?: string): Promise<string> {
    const proxy = server === undefined ? {} : { proxy: { '/api': server } };
    const served = await preview({ ...this.#settings, preview: { host: '127.0.0.1', port: 0, ...proxy } });
    this.#served.push(served);
    return served.resolvedUrls?.local[0] ?? '';
  }

  async discard() {
    for (const served of this.#served) await served.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  get #settings() {
    return { root: this.folder, configFile: this.#at('vite.config.ts') };
  }

  #at(file: string): string {
    const at = path.join(this.folder, file);
    mkdirSync(path.dirname(at), { recursive: true });
    return at;
  }

  #write(file: string, content: string) {
    writeFileSync(this.#at(file), content);
  }
}
