// The package against the built server, with every version of the AI SDK that it is for.

import { defineConfig } from 'vitest/config';

const VERSIONS = ['5.0.100', '5.0.277', '6.0.100', '6.0.326', '7.0.20', '7.0.173'];
/** Versions from which on the AI SDK knows something that earlier ones do not. */
const STEPS = ['7.0.70', '7.0.82', '7.0.149'];

const project = (version: string, include: string[]) => ({
  resolve: { alias: version === '7.0.173' ? {} : { ai: `ai-${version}` } },
  define: { AI_VERSION: JSON.stringify(version) },
  test: {
    name: `ai ${version}`,
    include,
    environment: 'node' as const,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});

export default defineConfig({
  test: {
    // Most tests wait for the server. By default, two cores get one worker.
    maxWorkers: 2,
    projects: [
      { test: { name: 'states', include: ['tests/states/*.test.ts'], environment: 'node' } },
      ...VERSIONS.map((version) => project(version, ['tests/*.test.ts'])),
      ...STEPS.map((version) => project(version, ['tests/versions.test.ts'])),
      { test: { name: 'react', include: ['tests/react/*.test.tsx'], environment: 'node' } },
      {
        define: { AI_VERSION: JSON.stringify('7.0.173') },
        test: {
          name: 'assistant-ui',
          include: ['tests/assistant-ui/*.test.tsx'],
          environment: 'node',
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
