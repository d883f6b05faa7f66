// How much the plain page ships.

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from '@playwright/test';

const DIST = resolve(import.meta.dirname, '../dist');
const MOST = 425_000;
/** KaTeX, which comes with the first formula. */
const FORMULAS = /\/Formula-/;
const MOST_OF_FORMULAS = 80_000;

/** Every script that a page may load, its lazy ones included, as the build names them. */
function scriptsOf(page: string): string[] {
  const found = new Set<string>();
  const look = (text: string) => {
    for (const [, name] of text.matchAll(/([\w.-]+\.js)["'`]/g)) {
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

test('the plain page may load less than 425 kB of compressed JavaScript, and 80 kB for formulas', () => {
  const scripts = scriptsOf('index.html');
  const sizeOf = (paths: string[]) =>
    paths.reduce((sum, path) => sum + gzipSync(readFileSync(path), { level: 9 }).length, 0);
  const sum = sizeOf(scripts.filter((path) => !FORMULAS.test(path)));
  const formulas = sizeOf(scripts.filter((path) => FORMULAS.test(path)));
  console.log(
    `      plain page: ${(sum / 1000).toFixed(0)} kB of compressed JavaScript in ${scripts.length} files`,
  );
  expect(scripts.length).toBeGreaterThan(2);
  expect(sum).toBeLessThan(MOST);
  expect(formulas).toBeGreaterThan(0);
  expect(formulas).toBeLessThan(MOST_OF_FORMULAS);
});
