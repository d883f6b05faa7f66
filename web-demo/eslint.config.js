import jsxA11y from 'eslint-plugin-jsx-a11y';
import reactHooks from 'eslint-plugin-react-hooks';
import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

/** The folders of src and of src/chat. Each imports only from those before it; docs/contributing/pages.md has their contents. */
const ROOMS = [
  'state',
  'i18n',
  'record',
  'ui',
  'text',
  'values',
  'tools',
  'server',
  'context',
  'memories',
  'runs',
  'calls',
  'messages',
  'composer',
  'frame',
  'plain',
  'assistant',
  'inbox',
  'gallery',
];

export default defineConfig(
  // What is not TypeScript has no types to be checked by.
  globalIgnores(['dist', 'test-results', 'playwright-report', '**/*.js', '**/*.mjs']),
  tseslint.configs.strictTypeChecked,
  jsxA11y.flatConfigs.strict,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
      'no-restricted-syntax': [
        'error',
        {
          selector:
            "JSXOpeningElement:matches([name.name='textarea'], [name.name='input']:not(:has(JSXAttribute[name.name='type'])))" +
            ":not(:has(JSXAttribute[name.name='dir']))",
          message: 'A text runs in its own direction: give the field dir="auto", or dir="ltr" for code.',
        },
      ],
    },
  },
  ROOMS.slice(0, -1).map((room, at) => ({
    files: [`src/**/${room}/**`],
    // Texts are named like the rooms that they are for.
    ignores: ['**/tests/**', 'src/i18n/zh/**'],
    rules: {
      'no-restricted-imports': [
        'error',
        {
          patterns: [
            {
              regex: `^\\.(.*/)?(${ROOMS.slice(at + 1).join('|')})(/|$)`,
              caseSensitive: true,
              message: `src/**/${room} comes before it in ROOMS (eslint.config.js).`,
            },
          ],
        },
      ],
    },
  })),
  // Playwright's fixtures have a `use` that is no hook.
  { ignores: ['tests/**', 'bench/**'], ...reactHooks.configs.flat['recommended-latest'] },
);
