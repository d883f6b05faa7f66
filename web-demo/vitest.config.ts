// The pages in a stand-in for a browser; and the helpers against the built server, with every version of the
// AI SDK that they are for.

import { defineConfig, mergeConfig } from 'vitest/config';
import pages from './vite.config';

export default mergeConfig(
  pages,
  defineConfig({
    test: {
      // As in playwright.config.ts: what needs its second try is named, and nobody has to begin a long run
      // again for it.
      retry: process.env['CI'] === undefined ? 0 : 1,
      projects: [
        {
          extends: true,
          test: {
            name: 'pages',
            include: ['src/**/*.test.{ts,tsx}'],
            exclude: ['src/lib/tests/**', 'src/lib/assistant-ui-tests/**'],
            environment: 'happy-dom',
          },
        },
        {
          extends: true,
          define: { AI_VERSION: JSON.stringify('7.0.173') },
          test: {
            name: 'assistant-ui',
            include: ['src/lib/assistant-ui-tests/*.test.tsx'],
            environment: 'node',
            testTimeout: 60_000,
            hookTimeout: 60_000,
          },
        },
        // The helper that people copy has to work with whatever `ai` they have.
        ...['5.0.100', '5.0.277', '6.0.100', '6.0.326', '7.0.20', '7.0.173'].map((version) => ({
          extends: true as const,
          resolve: { alias: version === '7.0.173' ? {} : { ai: `ai-${version}` } },
          define: { AI_VERSION: JSON.stringify(version) },
          test: {
            name: `ai ${version}`,
            include: ['src/lib/tests/*.test.ts'],
            environment: 'node',
            testTimeout: 60_000,
            hookTimeout: 60_000,
          },
        })),
      ],
    },
  }),
);
