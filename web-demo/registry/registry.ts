// The registry of the cards, as shadcn's command line reads it: `npx shadcn add http://127.0.0.1:3000/r/approval-card.json`.
//
// An item has the files that the demo uses, from the file that a page imports on. Three things are different. Files in `cards` replace
// those that know the demo. The colours have names of their own, because shadcn's `muted` and `accent` mean something else. The texts
// come from an i18next of their own (`cards/i18n/texts.ts`).
//
// Each item has all of its files. shadcn resolves the name of another item against its own registry or against a fixed URL, and this
// registry has the URL of the server that carries it.

import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import postcss, { type AtRule, type ChildNode, type Container, type Rule } from 'postcss';

/** The items, with the file that a page imports. */
const ITEMS = [
  {
    name: 'approval-card',
    title: 'Approval card',
    description: 'A tool call in all of its states: approve, always, edit, deny, cancel, try again.',
    entries: ['chat/calls/ToolCard.tsx'],
  },
  {
    name: 'schema-form',
    title: 'Form from JSON Schema',
    description: 'A form for one JSON value, made from a JSON Schema, with the JSON behind it.',
    entries: ['chat/values/ValueEditor.tsx'],
  },
  {
    name: 'gate',
    title: 'Gate',
    description: 'The foot of a step with several calls: how many decisions are left, and all at once.',
    entries: ['chat/calls/Gate.tsx'],
  },
  {
    name: 'plan',
    title: 'Plan',
    description: 'The plan of a run with its progress, and its editor.',
    entries: ['chat/runs/PlanList.tsx', 'chat/runs/PlanEditor.tsx'],
  },
  {
    name: 'question',
    title: 'Question',
    description: 'A question of the model, a tool or an MCP server, as a form.',
    entries: ['chat/calls/ElicitationCard.tsx'],
  },
];

export const REGISTRY_ITEMS = ITEMS.map(({ name }) => name);

interface ItemFile {
  path: string;
  type: 'registry:component' | 'registry:file';
  target: string;
  content: string;
}

type Css = { [name: string]: string | Css };

export interface RegistryItem {
  name: string;
  type: 'registry:component';
  title: string;
  description: string;
  docs: string;
  dependencies: string[];
  files: ItemFile[];
  cssVars: Record<'theme' | 'light' | 'dark', Record<string, string>>;
  css: Css;
}

const DEMO = path.resolve(import.meta.dirname, '../src');
const CARDS = path.resolve(import.meta.dirname, 'cards');
/** Where the files are in the project that they are added to. */
const TARGET = 'components/fermata';
const PREFIX = 'fermata';

/** What a page with a chat has already. */
const NOT_INSTALLED = ['react', 'fermata-chat'];
/** The modules that the texts of the cards replace. */
const TEXTS = ['react-i18next', 'i18next'];
const TEXTS_FILE = 'i18n/texts.ts';

/** The files of the registry by name, below `r/`. */
export function registryFiles(): Record<string, string> {
  const items = ITEMS.map(itemOf);
  const catalog = {
    $schema: 'https://ui.shadcn.com/schema/registry.json',
    name: 'fermata',
    homepage: '/gallery',
    items: items.map((item) => ({
      ...item,
      files: item.files.map(({ path, type, target }) => ({ path, type, target })),
    })),
  };
  const files: Record<string, object> = { registry: catalog };
  for (const item of items)
    files[item.name] = { $schema: 'https://ui.shadcn.com/schema/registry-item.json', ...item };
  return Object.fromEntries(
    Object.entries(files).map(([name, content]) => [`${name}.json`, JSON.stringify(content, null, 2)]),
  );
}

function itemOf({ name, title, description, entries }: (typeof ITEMS)[number]): RegistryItem {
  const { files, packages } = closureOf(entries);
  const imports = entries.map((entry) => `@/${targetOf(entry)}`.replace(/\.tsx$/, ''));
  return {
    name,
    type: 'registry:component',
    title,
    description,
    docs: `Import ${imports.join(' and ')}. The package fermata-chat must be installed. The texts are in @/${TARGET}/i18n.`,
    dependencies: packages.filter((name) => !NOT_INSTALLED.includes(name)),
    files,
    cssVars: themeVariables(),
    css: fieldStyles(),
  };
}

// === files ===

const pathOf = (file: string) => [CARDS, DEMO].map((root) => path.join(root, file)).find(existsSync);
const read = (file: string) => readFileSync(pathOf(file) ?? path.join(DEMO, file), 'utf8');
const targetOf = (file: string) => `${TARGET}/${file.replace(/^chat\//, '')}`;

/** A specifier of a module, in an import, an export or the declaration of a module. */
const SPECIFIER = /(\b(?:from|import|declare module) ')([^']+)(')/g;

/** Returns the files that some files need, and the packages. */
function closureOf(entries: readonly string[]): { files: ItemFile[]; packages: string[] } {
  const contents = new Map<string, string>();
  const packages = new Set<string>();
  const add = (file: string) => {
    if (contents.has(file)) return;
    contents.set(file, '');
    const needed: string[] = [];
    const text = read(file).replace(SPECIFIER, (_, before: string, name: string, after: string) => {
      // The instance of the texts is made from the package itself.
      const isOfTexts = TEXTS.includes(name) && file !== TEXTS_FILE;
      if (!name.startsWith('.') && !isOfTexts) {
        packages.add(packageOf(name));
        return before + name + after;
      }
      const other = isOfTexts ? TEXTS_FILE : resolveImport(file, name);
      needed.push(other);
      return before + specifierOf(file, other) + after;
    });
    contents.set(file, file.endsWith('.tsx') ? `'use client';\n\n${renamed(text)}` : renamed(text));
    needed.forEach(add);
  };
  entries.forEach(add);
  const files = [...contents].map(([file, content]): ItemFile => ({
    path: targetOf(file),
    // shadcn drops the comment at the head of a library.
    type: file.endsWith('.tsx') ? 'registry:component' : 'registry:file',
    target: targetOf(file),
    content,
  }));
  return { files: files.sort((a, b) => a.path.localeCompare(b.path)), packages: [...packages].sort() };
}

const packageOf = (name: string) =>
  name
    .split('/')
    .slice(0, name.startsWith('@') ? 2 : 1)
    .join('/');

function resolveImport(from: string, name: string): string {
  const base = path.posix.join(path.posix.dirname(from), name);
  const found = ['.ts', '.tsx', '/index.ts'].map((end) => base + end).find((file) => pathOf(file));
  if (found === undefined) throw new Error(`${from} imports ${name}, which does not exist`);
  return found;
}

function specifierOf(from: string, to: string): string {
  const relative = path.posix.relative(path.posix.dirname(targetOf(from)), targetOf(to));
  const name = relative.replace(/(\/index)?\.tsx?$/, '');
  return name.startsWith('.') ? name : `./${name}`;
}

// === colours ===

const theme = () => postcss.parse(readFileSync(path.join(DEMO, 'theme.css'), 'utf8'));

/** The declarations of the rules or at-rules that `is` accepts, without the dashes of their names. */
function declarations(of: Container, is: (node: Rule | AtRule) => boolean): Record<string, string> {
  const found: Record<string, string> = {};
  of.walk((node) => {
    if ((node.type !== 'rule' && node.type !== 'atrule') || !is(node)) return;
    node.each((child) => {
      if (child.type === 'decl') found[child.prop.replace(/^--/, '')] = child.value;
    });
  });
  return found;
}

/** The names of the demo's colours. */
const colours = (): string[] =>
  Object.keys(declarations(theme(), (node) => node.type === 'atrule' && node.name === 'theme'))
    .filter((name) => name.startsWith('color-'))
    .map((name) => name.slice('color-'.length));

function themeVariables(): RegistryItem['cssVars'] {
  const values = (selector: string) => {
    const all = declarations(theme(), (node) => node.type === 'rule' && node.selector === selector);
    return Object.fromEntries(colours().map((name) => [`${PREFIX}-${name}`, all[name] ?? '']));
  };
  const { 'radius-card': radius = '' } = declarations(
    theme(),
    (node) => node.type === 'atrule' && node.name === 'theme',
  );
  return {
    theme: {
      ...Object.fromEntries(colours().map((name) => [`color-${PREFIX}-${name}`, `var(--${PREFIX}-${name})`])),
      [`radius-${PREFIX}-card`]: radius,
    },
    light: values(':root'),
    dark: values("[data-theme='dark']"),
  };
}

const UTILITIES =
  'text|bg|fill|stroke|accent|caret|decoration|outline|ring|divide|border|border-x|border-y|border-t|border-r|border-b|border-l';

/** The classes with the names of the registry. */
function renamed(text: string): string {
  const ofColour = new RegExp(`(?<![\\w-])(${UTILITIES})-(${colours().join('|')})(?![\\w-])`, 'g');
  return text
    .replace(ofColour, `$1-${PREFIX}-$2`)
    .replace(/(?<![\w-])rounded-card(?![\w-])/g, `rounded-${PREFIX}-card`)
    .replace("'field block w-full'", `'${PREFIX}-field block w-full'`);
}

// === fields ===

/** The rules of fields, from the styles of the demo, and what the elements in a card have from its base. */
function fieldStyles(): Css {
  const styles = postcss.parse(readFileSync(path.join(DEMO, 'chat/frame/chat.css'), 'utf8'));
  const css: Css = {};
  const isOfField = (rule: Rule) => rule.selectors.some((selector) => /^(select)?\.field\b/.test(selector));
  styles.walkRules((rule) => {
    const isOfSelect = rule.selector === 'select';
    if (!isOfSelect && !isOfField(rule)) return;
    const selector = isOfSelect
      ? `select.${PREFIX}-field`
      : rule.selector.replaceAll('.field', `.${PREFIX}-field`);
    const media = mediaOf(rule);
    const into = media === undefined ? css : ((css[media] ??= {}) as Css);
    into[selector] = { ...(into[selector] as Css | undefined), ...styleOf(rule) };
  });
  css[`.${PREFIX}-field:focus-visible`] = {
    outline: `2px solid var(--${PREFIX}-accent)`,
    'outline-offset': '2px',
  };
  // A text for screen readers is absolute. An element that scrolls and is not positioned does not clip it.
  css[':is([data-tool], [data-elicitation]) :is(pre, .overflow-auto, .overflow-y-auto)'] = {
    position: 'relative',
  };
  return { '@layer components': css };
}

/** The query that a rule is in. */
function mediaOf({ parent }: ChildNode): string | undefined {
  if (parent?.type !== 'atrule') return undefined;
  const { name, params } = parent as AtRule;
  return name === 'media' ? `@media ${params}` : undefined;
}

const styleOf = (rule: Rule): Css => {
  const style: Css = {};
  rule.each((child) => {
    if (child.type === 'decl') style[child.prop] = ofRegistry(child.value);
  });
  return style;
};

const ofRegistry = (value: string) =>
  value.replace(/var\(--([\w-]+)\)/g, (whole, name: string) =>
    colours().includes(name) ? `var(--${PREFIX}-${name})` : whole,
  );
