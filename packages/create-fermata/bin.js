#!/usr/bin/env node
// Copies a template into a new folder: npm create fermata my-app -- --template nextjs
//
// A template is a list of folders below `templates`. They are copied one after the other, so that templates share files.

import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const TEMPLATES = {
  'vite-usechat': { is: 'Vite and React, with useChat', layers: ['all', 'vite', 'usechat', 'vite-usechat'] },
  nextjs: { is: 'Next.js with the App Router, with useChat', layers: ['all', 'usechat', 'nextjs'] },
  'assistant-ui': { is: 'Vite and React, with assistant-ui', layers: ['all', 'vite', 'assistant-ui'] },
};
const NAMES = Object.keys(TEMPLATES);
const DEFAULT = 'vite-usechat';

const HELP = `Makes a chat page and the settings of its Fermata server in a new folder.

Usage: npm create fermata [folder] -- [--template <name>]

Templates:
${NAMES.map((name) => `  ${name.padEnd(14)}${TEMPLATES[name].is}`).join('\n')}`;

/** An error that the person can correct. Its message says how. */
class Refusal extends Error {}

/** Returns the reason why a project cannot be made in a folder. */
function faultOfFolder(folder) {
  if (folder === '') return 'The folder has no name.';
  const root = path.resolve(folder);
  const name = path.basename(root);
  // The rule of npm for new packages. The name goes into package.json.
  if (!/^[a-z0-9][a-z0-9._~-]*$/.test(name) || name.length > 214 || name === 'node_modules')
    return `"${name}" is not a valid npm package name. Use lower-case letters, digits and hyphens, such as my-app.`;
  if (!existsSync(root)) return undefined;
  if (!statSync(root).isDirectory()) return `${root} is a file. Name another folder.`;
  // A repository that was just cloned or initialized is fine.
  if (readdirSync(root).some((file) => file !== '.git')) return `${root} is not empty. Name another folder.`;
  return undefined;
}

const faultOfTemplate = (name) =>
  NAMES.includes(name)
    ? undefined
    : `There is no template "${name}". The templates are: ${NAMES.join(', ')}.`;

/** Asks until the answer has no fault. */
async function ask(question, byDefault, faultOf) {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const ended = new AbortController();
  terminal.once('close', () => ended.abort());
  try {
    for (;;) {
      const answer = (
        await terminal.question(`${question} (${byDefault}): `, { signal: ended.signal })
      ).trim();
      const fault = faultOf(answer || byDefault);
      if (fault === undefined) return answer || byDefault;
      console.error(fault);
    }
  } catch (error) {
    if (ended.signal.aborted) throw new Refusal('Nothing was created.');
    throw error;
  } finally {
    terminal.close();
  }
}

function readArguments() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { template: { type: 'string', short: 't' }, help: { type: 'boolean', short: 'h' } },
    });
    if (positionals.length > 1) throw new Error(`One folder is expected, not ${positionals.length}.`);
    return { ...values, folder: positionals[0] };
  } catch (error) {
    // Node.js adds advice about values that begin with a hyphen.
    const [reason] = error.message.split('. To specify');
    throw new Refusal(`${reason}\n\n${HELP}`);
  }
}

async function choose(given) {
  const isTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
  const { template } = given;
  const faults = [
    template !== undefined && faultOfTemplate(template),
    given.folder !== undefined && faultOfFolder(given.folder),
  ].filter(Boolean);
  if (faults.length > 0) throw new Refusal(faults.join('\n'));
  if (!isTerminal) {
    if (given.folder === undefined) throw new Refusal(`Name a folder: npm create fermata my-app\n\n${HELP}`);
    if (template === undefined) console.log(`No --template is given, so it is ${DEFAULT}.`);
    return { folder: given.folder, template: template ?? DEFAULT };
  }
  const folder = given.folder ?? (await ask('Folder', 'my-app', faultOfFolder));
  if (template !== undefined) return { folder, template };
  for (const name of NAMES) console.log(`  ${name.padEnd(14)}${TEMPLATES[name].is}`);
  return { folder, template: await ask('Template', DEFAULT, faultOfTemplate) };
}

function create(root, template) {
  const templates = fileURLToPath(new URL('templates/', import.meta.url));
  // They come from the web demo when the package is packed.
  if (!existsSync(path.join(templates, 'all/src/components/fermata')))
    throw new Refusal(
      'The cards are missing. In a clone of Fermata, run node packages/create-fermata/cards.mjs first.',
    );
  mkdirSync(root, { recursive: true });
  for (const layer of TEMPLATES[template].layers)
    cpSync(path.join(templates, layer), root, { recursive: true });
  // npm packs no file of the name .gitignore.
  renameSync(path.join(root, '_gitignore'), path.join(root, '.gitignore'));
  const file = path.join(root, 'package.json');
  const manifest = JSON.parse(readFileSync(file, 'utf8'));
  writeFileSync(file, `${JSON.stringify({ name: path.basename(root), ...manifest }, null, 2)}\n`);
}

async function main() {
  const given = readArguments();
  if (given.help) {
    console.log(HELP);
    return;
  }
  const { folder, template } = await choose(given);
  const root = path.resolve(folder);
  create(root, template);
  const there = path.relative(process.cwd(), root);
  const commands = [
    ...(there === '' ? [] : [`cd ${there.includes(' ') ? `'${there}'` : there}`]),
    'npm install',
    'npm run dev',
  ];
  console.log(
    `\n${root} has a chat page (${template}). Next:\n\n${commands.map((command) => `  ${command}`).join('\n')}\n`,
  );
}

try {
  await main();
} catch (error) {
  if (!(error instanceof Refusal)) throw error;
  console.error(`create-fermata: ${error.message}`);
  process.exitCode = 1;
}
