// How much the plain page ships.

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from '@playwright/test';

const DIST = resolve(import.meta.dirname, '../dist');
const MOST = 450_000;
/** KaTeX, which comes with the first formula. */
const FORMULAS = /\/Formula-/;
const MOST_OF_FORMULAS = 80_000;
/** Mermaid, which comes with the first diagram, into its frame. */
const DIAGRAMS = /\/diagram-/;
const MOST_OF_DIAGRAMS = 1_000_000;

/** Every script that a page may load, its lazy ones included, and every page of a frame, as the build names them. */
function scriptsOf(page: string): string[] {
  const found = new Set<string>();
  const look = (text: string) => {
    for (const [, name] of text.matchAll(/([\w.-]+\.(?:js|html))["'`]/g)) {
      const path = resolve(DIST, name?.startsWith('before-paint') ? '' : 'assets', name ?? '');
      if (name === undefined || found.has(path)) continue;
      let script: string;
      try {
        script = readFileSync(path, 'utf8');
      } catch {
        // A word in the code that looks like a file, and is none.
        continue;
      }
      found.add(path);
      look(script);
    }
  };
  look(readFileSync(resolve(DIST, page), 'utf8'));
  return [...found];
}

test('the plain page loads less than 450 kB of compressed JavaScript, and more only for formulas and diagrams', () => {
  const scripts = scriptsOf('index.html');
  const sizeOf = (paths: string[]) =>
    paths.reduce((sum, path) => sum + gzipSync(readFileSync(path), { level: 9 }).length, 0);
  const sum = sizeOf(scripts.filter((path) => !FORMULAS.test(path) && !DIAGRAMS.test(path)));
  console.log(
    `      plain page: ${(sum / 1000).toFixed(0)} kB of compressed JavaScript in ${scripts.length} files`,
  );
  expect(scripts.length).toBeGreaterThan(2);
  expect(sum).toBeLessThan(MOST);
  for (const [name, most] of [
    [FORMULAS, MOST_OF_FORMULAS],
    [DIAGRAMS, MOST_OF_DIAGRAMS],
  ] as const) {
    const size = sizeOf(scripts.filter((path) => name.test(path)));
    expect(size, String(name)).toBeGreaterThan(0);
    expect(size, String(name)).toBeLessThan(most);
  }
});
