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
    },
  }),
);
