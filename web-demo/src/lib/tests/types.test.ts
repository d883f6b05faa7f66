// The helper is compiled by whoever copies it, against the `ai` that they have.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { version } from './world';

const ROOT = path.resolve(import.meta.dirname, '../../..');

test('the helper fits the types of this version', () => {
  const folder = mkdtempSync(path.join(ROOT, 'node_modules/.fermata-types-'));
  try {
    const compilerOptions = {
      ...(version !== '7.0.173' && { paths: { ai: [path.join(ROOT, `node_modules/ai-${version}`)] } }),
      types: [],
    };
    const config = path.join(folder, 'tsconfig.json');
    writeFileSync(
      config,
      JSON.stringify({
        extends: path.join(ROOT, 'tsconfig.json'),
        compilerOptions,
        include: [],
        files: [path.join(ROOT, 'src/lib/fermata.ts')],
      }),
    );
    const said = execFileSync(
      process.execPath,
      [path.join(ROOT, 'node_modules/typescript/bin/tsc'), '--noEmit', '-p', config],
      { encoding: 'utf8' },
    );
    expect(said).toBe('');
  } catch (error) {
    throw new Error(`tsc: ${(error as { stdout?: string }).stdout ?? String(error)}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
