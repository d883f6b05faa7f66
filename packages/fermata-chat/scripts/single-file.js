// The package as single files, for pages that copy it instead of installing it: `fermata.ts`, and the hook for React and
// the runtime for assistant-ui, which import it. Run as a program, it writes them to a folder.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseSync } from 'vite';

const SOURCE = path.resolve(import.meta.dirname, '../src');

const HEAD = `// Fermata for chat pages, as one file: copy it into your project. It needs nothing but \`ai\`, version 5, 6 or 7. It
// is put together from packages/fermata-chat, where the same can be read in parts.
`;

/** The files, by name. */
export function singleFiles() {
  return {
    'fermata.ts': single(HEAD, 'index.ts'),
    'fermata-react.ts': read('react.ts').replaceAll("'./index.js'", "'./fermata'"),
    'fermata-assistant-ui.tsx': single(headOf('assistant-ui.tsx'), 'assistant-ui.tsx'),
  };
}

const read = (name) => readFileSync(path.join(SOURCE, name), 'utf8');

/** The comment with which a file begins. */
const headOf = (name) => /^(\/\/.*\n)*/.exec(read(name))[0];

const parse = (name) => {
  const text = read(name);
  const { program, errors } = parseSync(name, text);
  if (errors.length > 0) throw new Error(`${name}: ${errors[0].message}`);
  return { text, statements: program.body };
};

/** The names that an entry exports, its own and those of other files. */
function publicNames(entry) {
  const { statements } = parse(entry);
  return new Set(
    statements.flatMap((statement) =>
      statement.type !== 'ExportNamedDeclaration'
        ? []
        : statement.declaration === null
          ? statement.specifiers.map(({ exported }) => exported.name)
          : declaredBy(statement.declaration),
    ),
  );
}

const declaredBy = (declaration) =>
  declaration.type === 'VariableDeclaration'
    ? declaration.declarations.map(({ id }) => id.name)
    : [declaration.id.name];

/** An entry and the files of the package that it needs; each comes after those whose values it imports. */
function partsOf(entry) {
  const seen = new Set();
  const parts = [];
  const visit = (name) => {
    if (seen.has(name)) return;
    seen.add(name);
    const needed = parse(name).statements.filter(({ source }) => isPart(source?.value));
    const [types, values] = [needed.filter(isOfTypes), needed.filter((statement) => !isOfTypes(statement))];
    const fileOf = ({ source }) => fileNamed(path.join(path.dirname(name), source.value));
    values.map(fileOf).forEach(visit);
    parts.push(name);
    types.map(fileOf).forEach(visit);
  };
  visit(entry);
  return parts;
}

/** The index is a file of its own; every other file of the package is a part. */
const isPart = (from) => from?.startsWith('.') && !from.endsWith('/index.js');

const isOfTypes = ({ importKind, exportKind }) => importKind === 'type' || exportKind === 'type';

/** The source of a module of the package. */
const fileNamed = (module) =>
  ['.ts', '.tsx']
    .map((ending) => module.replace(/\.js$/, ending))
    .find((name) => existsSync(path.join(SOURCE, name)));

function single(top, entry) {
  const known = publicNames(entry);
  /** The imported names, by the package. */
  const imports = new Map();
  const bodies = [];
  for (const name of partsOf(entry)) {
    const { text, statements } = parse(name);
    const head = headOf(name);
    bodies.push(`// === ${name.replace(/\.tsx?$/, '')} ===`, head === top ? '' : head.trim());
    let end = head.length;
    for (const statement of statements) {
      // With the comments above it.
      let body = text.slice(end, statement.end).trim();
      end = statement.end;
      if (statement.type === 'ImportDeclaration') {
        collect(imports, statement, text);
        continue;
      }
      if (statement.type === 'ExportNamedDeclaration') {
        if (statement.declaration === null) continue;
        const isPublic = declaredBy(statement.declaration).some((declared) => known.has(declared));
        if (!isPublic) body = body.replace(/^export /m, '');
      }
      bodies.push(body);
    }
  }
  return [top.trim(), print(imports), ...bodies].filter((body) => body !== '').join('\n\n') + '\n';
}

function collect(imports, statement, text) {
  const { value } = statement.source;
  if (isPart(value)) return;
  const from = value.endsWith('/index.js') ? './fermata' : value;
  if (statement.specifiers.some(({ type }) => type === 'ImportDefaultSpecifier')) {
    imports.set(from, text.slice(statement.start, statement.end));
    return;
  }
  const names = imports.get(from) ?? new Set();
  for (const { imported, local, importKind } of statement.specifiers) {
    const name = imported.name === local.name ? local.name : `${imported.name} as ${local.name}`;
    names.add(importKind === 'type' || statement.importKind === 'type' ? `type ${name}` : name);
  }
  imports.set(from, names);
}

const print = (imports) =>
  [...imports]
    .map(([from, what]) => {
      if (typeof what === 'string') return what;
      // One part may need only the type of what another one uses.
      const names = [...what].filter(
        (name) => !what.has(name.replace(/^type /, '')) || !name.startsWith('type '),
      );
      return `import {\n  ${names.sort().join(',\n  ')},\n} from '${from}';`;
    })
    .join('\n');

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , target] = process.argv;
  mkdirSync(target, { recursive: true });
  for (const [name, text] of Object.entries(singleFiles())) writeFileSync(path.join(target, name), text);
}
