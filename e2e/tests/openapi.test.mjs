// @ts-check
// What a client has that is generated from the description: types under which a page's code compiles, and which fit
// those of the AI SDK.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';
import { Server } from '../harness/server.mjs';

const MODULES = path.resolve(import.meta.dirname, '../node_modules');
const CLIENT = path.resolve(import.meta.dirname, 'openapi/client.ts');

/**
 * A `type` that begins with `data-` is a template, as in the AI SDK, so that the others differ from it.
 *
 * @param {import('openapi-typescript').SchemaObject} schema
 */
function transform(schema) {
  const start = /^\^([a-z]+-)$/.exec(('pattern' in schema && String(schema.pattern)) || '')?.[1];
  if (start === undefined) return undefined;
  const text = ts.factory.createKeywordTypeNode(ts.SyntaxKind.StringKeyword);
  const span = ts.factory.createTemplateLiteralTypeSpan(text, ts.factory.createTemplateTail(''));
  return ts.factory.createTemplateLiteralType(ts.factory.createTemplateHead(start), [span]);
}

test('a client that is generated from the description compiles', async (context) => {
  const server = await Server.start({});
  context.after(() => server.discard());
  const response = await fetch(`${server.url}/openapi.json`);
  const types = astToString(await openapiTS(await response.text(), { transform }));
  // It is in here because the modules that it imports are found from here.
  mkdirSync(path.join(MODULES, '.cache'), { recursive: true });
  const folder = mkdtempSync(path.join(MODULES, '.cache', 'openapi-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(path.join(folder, 'api.d.ts'), types);
  writeFileSync(path.join(folder, 'package.json'), '{"type":"module"}');
  writeFileSync(path.join(folder, 'client.ts'), readFileSync(CLIENT));
  const options =
    '--strict --noEmit --skipLibCheck --module nodenext --target es2023 --lib es2023,dom --types node';
  const tsc = path.join(MODULES, 'typescript', 'bin', 'tsc');
  const { status, stdout } = spawnSync(process.execPath, [tsc, ...options.split(' '), 'client.ts'], {
    cwd: folder,
    encoding: 'utf8',
  });
  assert.equal(status, 0, stdout);
});
