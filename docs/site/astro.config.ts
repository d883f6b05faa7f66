// The documentation as a site. The pages are the Markdown files of `docs` and the README: nothing is copied, and no
// file has a head for this site. `src/documents.ts` names the files, `src/markdown.ts` adapts them, and
// `src/check.ts` fails the build if a link of the result leads nowhere.

import { readFileSync } from 'node:fs';
import starlight from '@astrojs/starlight';
import { defineConfig } from 'astro/config';
import { checkLinks } from './src/check.ts';
import { REPOSITORY, ROOT } from './src/documents.ts';
import { markdown } from './src/markdown.ts';
import { sidebar } from './src/sidebar.ts';

// The colours are those of the web demo, which names its themes as Starlight does.
const theme = readFileSync(`${ROOT}/web-demo/src/theme.css`, 'utf8');
const colours = theme.slice(theme.indexOf(':root {'));

export default defineConfig({
  integrations: [
    starlight({
      title: 'Fermata',
      description: 'A chat server that parks tool calls for approvals and browser tools.',
      logo: { src: '../../web-demo/public/favicon.svg', alt: '' },
      customCss: ['./src/style.css'],
      head: [{ tag: 'style', content: colours }],
      social: [{ icon: 'github', label: 'Repository', href: REPOSITORY }],
      editLink: { baseUrl: `${REPOSITORY}/edit/main/docs/site/` },
      sidebar: sidebar(),
      markdown: { processedDirs: ['../..'] },
      expressiveCode: {
        defaultProps: { overridesByLang: { 'sh,console': { frame: 'none' } } },
        styleOverrides: {
          codeBackground: 'var(--sunken)',
          borderColor: 'var(--line)',
          borderRadius: '0.5rem',
        },
      },
      tableOfContents: { maxHeadingLevel: 2 },
      credits: false,
      disable404Route: true,
    }),
    markdown(),
    checkLinks(),
  ],
});
