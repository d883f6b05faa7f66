// Two pages, each an entry of its own, and a development server that passes everything else on to Fermata.

import { resolve } from 'node:path';
import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defaultClientConditions, defaultServerConditions, defineConfig, type Plugin } from 'vite';
import { singleFiles } from '../packages/fermata-chat/scripts/single-file.js';

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

export default defineConfig({
  plugins: [react(), tailwindcss(), filesToCopy, withoutHtml, withoutBlocks, onlyWoff2],
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
      },
    },
  },
  server: { proxy: Object.fromEntries(PASSED_ON.map((path) => [path, FERMATA])) },
});
