// The pages, each an entry of its own, and a development server that passes everything else on to Fermata.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defaultClientConditions, defaultServerConditions, defineConfig, type Plugin } from 'vite';
import { singleFiles } from '../packages/fermata-chat/scripts/single-file.js';
import { registryFiles } from './registry/registry';

/** Where Fermata listens, for `npm run dev`. */
const FERMATA = process.env['FERMATA_URL'] ?? 'http://127.0.0.1:3000';
const PASSED_ON = ['/api', '/chat/tool-result', '/curl', '/healthz'];

/** The package for chat pages is taken as it is written, so that a change of it is seen at once. */
const SOURCE = 'fermata-source';

/** A running server has the package as single files, too: `curl -O http://127.0.0.1:3000/fermata.ts`. */
const filesToCopy: Plugin = {
  name: 'fermata-files-to-copy',
  generateBundle() {
    for (const [fileName, source] of Object.entries(singleFiles()))
      this.emitFile({ type: 'asset', fileName, source });
  },
};

/** A running server has the cards as a registry: `npx shadcn add http://127.0.0.1:3000/r/approval-card.json`. */
const registry: Plugin = {
  name: 'fermata-registry',
  generateBundle() {
    for (const [name, source] of Object.entries(registryFiles()))
      this.emitFile({ type: 'asset', fileName: `r/${name}`, source });
  },
};

/** streamdown brings a parser of HTML, which the pages never use: HTML of the model is text. It is a tenth of their scripts. */
const withoutHtml: Plugin = {
  name: 'fermata-without-html',
  enforce: 'pre',
  resolveId: (id) => (id === 'rehype-raw' ? '\0no-rehype-raw' : undefined),
  load: (id) => (id === '\0no-rehype-raw' ? 'export default () => undefined;' : undefined),
};

/** streamdown's own blocks of code and diagrams, which the pages replace with theirs. They would be scripts that nobody loads. */
const withoutBlocks: Plugin = {
  name: 'fermata-without-blocks',
  enforce: 'pre',
  resolveId: (id, importer) =>
    /^\.\/(mermaid|highlighted-body)-\w+\.js$/.test(id) && importer?.includes('/streamdown/')
      ? '\0no-streamdown-block'
      : undefined,
  load: (id) => (id === '\0no-streamdown-block' ? 'export default undefined;' : undefined),
};

/** KaTeX has each font in three formats. Every browser that the pages run in knows the first one. */
const onlyWoff2: Plugin = {
  name: 'fermata-only-woff2',
  enforce: 'pre',
  transform: (code, id) =>
    id.includes('katex') && id.endsWith('.css')
      ? code.replace(/,url\([^)]*\.(?:woff|ttf)\) format\("(?:woff|truetype)"\)/g, '')
      : undefined,
};

const require = createRequire(import.meta.url);
const DIAGRAM = 'virtual:diagram';
const DIAGRAM_IN_DEVELOPMENT = '/diagram.html';

/** The page of a frame that may load nothing, not even a script. */
function diagramPage(): string {
  const scripts = [
    require.resolve('mermaid/dist/mermaid.min.js'),
    resolve(import.meta.dirname, 'src/chat/text/drawDiagram.js'),
  ].map((file) => `<script>${readFileSync(file, 'utf8').replaceAll('</script', '<\\/script')}</script>`);
  const style =
    'body { margin: 0 } svg { display: block; max-width: 100%; height: auto; margin-inline: auto }';
  return `<!doctype html><meta charset="utf-8"><title>Fermata</title><style>${style}</style><body>${scripts.join('')}`;
}

/** The page that draws diagrams, as an asset. A server sends pages among the assets with the policy of a sandbox. */
function diagram(): Plugin {
  let isBuilt = false;
  return {
    name: 'fermata-diagram',
    configResolved: ({ command }) => {
      isBuilt = command === 'build';
    },
    resolveId: (id) => (id === DIAGRAM ? `\0${DIAGRAM}` : undefined),
    load(id) {
      if (id !== `\0${DIAGRAM}`) return undefined;
      if (!isBuilt) return `export default '${DIAGRAM_IN_DEVELOPMENT}';`;
      const file = this.emitFile({ type: 'asset', name: 'diagram.html', source: diagramPage() });
      return `export default import.meta.ROLLUP_FILE_URL_${file};`;
    },
    configureServer: ({ middlewares }) => {
      middlewares.use(DIAGRAM_IN_DEVELOPMENT, (_, response) => {
        response.setHeader('content-type', 'text/html');
        response.end(diagramPage());
      });
    },
  };
}

export default defineConfig({
  plugins: [react(), tailwindcss(), filesToCopy, registry, withoutHtml, withoutBlocks, onlyWoff2, diagram()],
  resolve: { conditions: [SOURCE, ...defaultClientConditions] },
  ssr: { resolve: { conditions: [SOURCE, ...defaultServerConditions] } },
  build: {
    target: 'es2022',
    // In kilobytes; tests/performance.spec.ts keeps an eye on what all of it weighs.
    chunkSizeWarningLimit: 700,
    rolldownOptions: {
      input: {
        index: resolve(import.meta.dirname, 'index.html'),
        'assistant-ui': resolve(import.meta.dirname, 'assistant-ui.html'),
        inbox: resolve(import.meta.dirname, 'inbox.html'),
        gallery: resolve(import.meta.dirname, 'gallery.html'),
      },
    },
  },
  server: { proxy: Object.fromEntries(PASSED_ON.map((path) => [path, FERMATA])) },
});
