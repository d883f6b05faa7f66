import reactHooks from 'eslint-plugin-react-hooks';
import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

export default defineConfig(
  // What is not TypeScript has no types to be checked by.
  globalIgnores(['dist', '**/*.js']),
  tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
      // assistant-ui calls what may still change deprecated. Nothing else has a tool show what `human()` asks.
      '@typescript-eslint/no-deprecated': [
        'error',
        { allow: [{ from: 'package', package: 'assistant-stream', name: 'unstable_runPendingTools' }] },
      ],
    },
  },
  reactHooks.configs.flat['recommended-latest'],
);
