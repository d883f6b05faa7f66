// The pages in a stand-in for a browser.

import { defineConfig, mergeConfig } from 'vitest/config';
import pages from './vite.config';

export default mergeConfig(
  pages,
  defineConfig({
    test: {
      include: ['src/**/*.test.{ts,tsx}'],
      environment: 'happy-dom',
      maxWorkers: 2,
      // On a machine with much else to do, the first import of a page alone takes seconds.
      testTimeout: 60_000,
    },
  }),
);
