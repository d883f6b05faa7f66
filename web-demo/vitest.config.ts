// The pages in a stand-in for a browser.

import { defineConfig, mergeConfig } from 'vitest/config';
import pages from './vite.config';

export default mergeConfig(
  pages,
  defineConfig({
    test: {
      // As in playwright.config.ts: what needs its second try is named, and nobody has to begin a long run
      // again for it.
      retry: process.env['CI'] === undefined ? 0 : 1,
      include: ['src/**/*.test.{ts,tsx}'],
      environment: 'happy-dom',
    },
  }),
);
