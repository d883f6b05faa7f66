// The package as single files, for pages that copy it instead of installing it: `fermata.ts`, and the hook for React and
// the runtime for assistant-ui, which import it. Run as a program, it writes them to a folder.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseSync } from 'vite';

const SOURCE = path.resolve(import.meta.dirname, '../src');

/** Every file comes after those that it imports. */
const ORDER = [
  'version',
  'server',
  'stream',
  'transport',
  'outbox',
  'parts',
  'tools',
  'calls',
  'state',
  'chat',
  'index',
];

const HEAD = `// Fermata for chat pages, as one file: copy it into your project. It needs nothing but \`ai\`, version 5, 6 or 7. It
// is put together from packages/fermata-chat, where the same can be read in parts.
`;

/** The files, by name. */
export function singleFiles() {
  const beside = (name) => read(name).replaceAll("'./index.js'", "'./fermata'");
  return {
    'fermata.ts': single(),
    'fermata-react.ts': beside('react.ts'),
    'fermata-assistant-ui.tsx': beside('assistant-ui.tsx'),
  };
}

const read = (name) => readFileSync(path.join(SOURCE, name), 'utf8');

const parse = (name) => {
  const text = read(name);
  const { program, errors } = parseSync(name, text);
  if (errors.length > 0) throw new Error(`${name}: ${errors[0].message}`);
  return { text, statements: program.body };
};

/** What `index.ts` exports, by itself or from another file. */
function publicNames() {
  const { statements } = parse('index.ts');
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

function single() {
  const known = publicNames();
  /** What is imported, by the package. */
  const imports = new Map();
  const bodies = [];
  for (const name of ORDER) {
    const { text, statements } = parse(`${name}.ts`);
    // What the file says of itself, before its imports.
    const head = /^(\/\/.*\n)*/.exec(text)[0];
    bodies.push(`// === ${name} ===`, head.trim());
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
  return [HEAD.trim(), print(imports), ...bodies].filter((body) => body !== '').join('\n\n') + '\n';
}

function collect(imports, statement, text) {
  const from = statement.source.value;
  if (from.startsWith('.')) return;
  if (statement.specifiers.some(({ type }) => type === 'ImportDefaultSpecifier')) {
    imports.set(from, text.slice(statement.start, statement.end));
    return;
  }
  const names = imports.get(from) ?? new Set();
  for (const { imported, importKind } of statement.specifiers)
    names.add(
      importKind === 'type' || statement.importKind === 'type' ? `type ${imported.name}` : imported.name,
    );
  imports.set(from, names);
}

const print = (imports) =>
  [...imports]
    .map(([from, what]) =>
      typeof what === 'string' ? what : `import {\n  ${[...what].sort().join(',\n  ')},\n} from '${from}';`,
    )
    .join('\n');

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , target] = process.argv;
  mkdirSync(target, { recursive: true });
  for (const [name, text] of Object.entries(singleFiles())) writeFileSync(path.join(target, name), text);
}
