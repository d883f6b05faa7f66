// Puts the cards of the web demo into the templates, as `npx shadcn add` puts them into a page. They are not kept here a second time.
//
//   npm run build --workspace web-demo
//   node packages/create-fermata/cards.mjs

import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const ROOT = path.resolve(HERE, '../..');

/** The tool of the templates. The card of its call has the title. */
const TOOL = {
  file: 'components/fermata/tools/index.ts',
  from: 'const tools = {} satisfies',
  to: `const tools = {
  get_time_zone: {
    description: 'The time zone of this browser.',
    inputSchema: { type: 'object', properties: {} },
    // It changes nothing, so it may run again after a reload.
    repeatable: true,
    execute: () => Intl.DateTimeFormat().resolvedOptions().timeZone,
  },
} satisfies`,
};
const TITLES = [
  { file: 'components/fermata/i18n/en/cards.ts', title: 'Find out your time zone' },
  { file: 'components/fermata/i18n/zh/cards.ts', title: '查询你的时区' },
].map(({ file, title }) => ({
  file,
  from: /(pageTools: \{\n)[^}]*(\n {2}\},)/,
  to: `$1    get_time_zone: '${title}',$2`,
}));

/**
 * Writes the cards into the templates of a folder.
 *
 * @param {string} folder of this package, or of a copy of it
 */
export function addCards(folder) {
  const items = readItems();
  const into = path.join(folder, 'templates/all/src');
  rmSync(path.join(into, 'components/fermata'), { recursive: true, force: true });
  const files = new Map(items.flatMap((item) => item.files).map(({ target, content }) => [target, content]));
  for (const { file, from, to } of [TOOL, ...TITLES]) {
    const before = files.get(file) ?? '';
    const after = before.replace(from, to);
    if (after === before) throw new Error(`${file} of the registry is not as cards.mjs expects it: ${from}`);
    files.set(file, after);
  }
  files.set('components/fermata/fermata.css', styles(items[0]));
  for (const [target, content] of files) {
    mkdirSync(path.dirname(path.join(into, target)), { recursive: true });
    writeFileSync(path.join(into, target), content);
  }
  checkDependencies(folder, new Set(items.flatMap((item) => item.dependencies)));
}

function readItems() {
  const registry = path.join(ROOT, 'web-demo/dist/r');
  let names;
  try {
    names = JSON.parse(readFileSync(path.join(registry, 'registry.json'), 'utf8')).items.map(
      ({ name }) => name,
    );
  } catch (error) {
    throw new Error(`The web demo is not built: npm run build --workspace web-demo. ${error.message}`, {
      cause: error,
    });
  }
  return names.map((name) => JSON.parse(readFileSync(path.join(registry, `${name}.json`), 'utf8')));
}

/** The styles of an item. All items have the same. */
function styles({ cssVars, css }) {
  const variables = (values) =>
    Object.fromEntries(Object.entries(values).map(([name, value]) => [`--${name}`, value]));
  return `/* The colours of the cards, by day and by night, and their fields. */\n\n${block({
    '@theme inline': variables(cssVars.theme),
    ':root': { 'color-scheme': 'light dark', ...variables(cssVars.light) },
    '@media (prefers-color-scheme: dark)': { ':root': variables(cssVars.dark) },
    ...css,
  })}`;
}

function block(rules, indent = '') {
  return Object.entries(rules)
    .map(([name, value]) =>
      typeof value === 'string'
        ? `${indent}${name}: ${value};\n`
        : `${indent}${name} {\n${block(value, `${indent}  `)}${indent}}\n`,
    )
    .join('');
}

function checkDependencies(folder, needed) {
  const templates = path.join(folder, 'templates');
  for (const name of readdirSync(templates)) {
    let manifest;
    try {
      manifest = JSON.parse(readFileSync(path.join(templates, name, 'package.json'), 'utf8'));
    } catch (error) {
      if (error.code === 'ENOENT') continue; // a part of several templates
      throw error;
    }
    const missing = [...needed].filter((one) => manifest.dependencies[one] === undefined);
    if (missing.length > 0)
      throw new Error(`The template ${name} lacks packages of the cards: ${missing.join(', ')}`);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) addCards(HERE);
