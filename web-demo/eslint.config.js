import jsxA11y from 'eslint-plugin-jsx-a11y';
import reactHooks from 'eslint-plugin-react-hooks';
import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

export default defineConfig(
  // What is not TypeScript has no types to be checked by.
  globalIgnores(['dist', 'test-results', 'playwright-report', '**/*.js']),
  tseslint.configs.strictTypeChecked,
  jsxA11y.flatConfigs.strict,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
    },
  },
  // Playwright's fixtures have a `use` that is no hook.
  { ignores: ['tests/**', 'bench/**'], ...reactHooks.configs.flat['recommended-latest'] },
);
