// Two pages, each an entry of its own, and a development server that passes everything else on to Fermata.

import { resolve } from 'node:path';
import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

/** Where Fermata listens, for `npm run dev`. */
const FERMATA = process.env['FERMATA_URL'] ?? 'http://127.0.0.1:3000';
const PASSED_ON = ['/api', '/chat/tool-result', '/curl', '/healthz'];

export default defineConfig({
  plugins: [react(), tailwindcss()],
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
