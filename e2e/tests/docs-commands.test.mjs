// @ts-check
// The commands and variables that README.md, the guide and the packages name exist in the program.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { binary } from '../harness/server.mjs';

const ROOT = path.resolve(import.meta.dirname, '../..');
const GUIDE = readdirSync(path.join(ROOT, 'docs/guide'))
  .filter((file) => file.endsWith('.md'))
  .map((file) => `docs/guide/${file}`);
const PAGES = [
  ...GUIDE,
  'README.md',
  'packages/fermata-chat/README.md',
  'packages/fermata-chat/SKILL.md',
  'packages/fermata-server/README.md',
  'release/README.md',
  'fermata.example.toml',
  'crates/server/src/first_start/fermata.toml',
];

/** What is a variable of tests or of the build, and of no server. */
const OTHERS =
  /^FERMATA_(BIN|REQUIRE_SERVICES|WRITE_DOCS|BUILD|VERSION|INSTALL|RELEASES|TEST_.*|DEMO|PICTURES|CHROMIUM|FIREFOX|PORT|URL|X)$/;

const texts = PAGES.map((page) => ({ page, text: readFileSync(path.join(ROOT, page), 'utf8') }));

/** @param {string[]} args @param {Record<string, string>} [env] */
const fermata = (args, env = {}) =>
  spawnSync(binary(), args, { cwd: os.tmpdir(), env: { PATH: process.env.PATH, ...env }, encoding: 'utf8' });

/** The `fermata …` lines of the shell blocks of a page, as arguments. @param {string} text */
function commandsIn(text) {
  const blocks = [...text.matchAll(/^( *)```sh\n([\s\S]*?)^\1```/gm)].map(([, , block = '']) => block);
  const lines = blocks.flatMap((block) => block.replaceAll(/\\\n\s*/g, ' ').split('\n'));
  return lines.flatMap((line) => {
    const [, rest] = /^\s*(?:[A-Z_]+=\S+ )*(?:npx )?fermata(?:-server)?(?: (.*))?$/.exec(line) ?? [];
    if (rest === undefined) return [];
    const words = rest.replace(/\s*(?:#|[|>&;]).*$/, '').match(/'[^']*'|"[^"]*"|\S+/g) ?? [];
    return [words.map((word) => word.replace(/^(['"])(.*)\1$/, '$2'))];
  });
}

test('each command has the options and arguments that it is shown with', () => {
  const commands = texts.flatMap(({ page, text }) => commandsIn(text).map((args) => ({ page, args })));
  assert.ok(commands.length > 15, `${commands.length} commands were found`);
  for (const { page, args } of commands) {
    // What stands before --help has to be known.
    const { status, stderr } = fermata([...args, '--help']);
    assert.equal(status, 0, `${page}: fermata ${args.join(' ')}\n${stderr}`);
  }
});

test('each variable is a setting', () => {
  const named = new Set(texts.flatMap(({ text }) => text.match(/\bFERMATA_[A-Z0-9_]*[A-Z0-9]\b/g) ?? []));
  const settings = [...named].filter((name) => !OTHERS.test(name));
  assert.ok(settings.length > 50, `${settings.length} variables were found`);
  const all = fermata(['--help']).stdout.replaceAll(/\s+/g, ' ');
  const unknown = settings.filter((name) => {
    const stem = name.replace(/_FILE$/, '');
    return (
      !all.includes(`[env: ${name}]`) &&
      !all.includes(`[env: ${stem}]`) &&
      !['FERMATA_CONFIG', 'FERMATA_TOKEN'].includes(name)
    );
  });
  assert.deepEqual(unknown, []);
});
