// The package as one file is compiled by whoever copies it, against the `ai` that they have. `npm run build`
// makes it.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { version } from './world';

const PACKAGE = path.resolve(import.meta.dirname, '..');
const MODULES = path.resolve(PACKAGE, '../../node_modules');

test('the single file fits the types of this version', () => {
  const file = path.join(PACKAGE, 'dist/copy/fermata.ts');
  const folder = mkdtempSync(path.join(MODULES, '.fermata-types-'));
  try {
    const compilerOptions = {
      ...(version !== '7.0.173' && {
        paths: {
          ai: [path.join(MODULES, `ai-${version}`)],
          'ai/package.json': [path.join(MODULES, `ai-${version}/package.json`)],
        },
      }),
      // As the templates of new projects have it.
      erasableSyntaxOnly: true,
      types: [],
    };
    const config = path.join(folder, 'tsconfig.json');
    writeFileSync(
      config,
      JSON.stringify({
        extends: path.join(PACKAGE, 'tsconfig.json'),
        compilerOptions,
        include: [],
        files: [file],
      }),
    );
    const said = execFileSync(
      process.execPath,
      [path.join(MODULES, 'typescript/bin/tsc'), '--noEmit', '-p', config],
      { encoding: 'utf8' },
    );
    expect(said).toBe('');
  } catch (error) {
    throw new Error(`tsc: ${(error as { stdout?: string }).stdout ?? String(error)}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
