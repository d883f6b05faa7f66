import { docsSchema } from '@astrojs/starlight/schema';
import { glob, type Loader } from 'astro/loaders';
import { defineCollection } from 'astro:content';
import path from 'node:path';
import { idOf, PATTERNS, ROOT, titleOf } from './documents.ts';
import { landing } from './landing.ts';

const files = glob({
  base: ROOT,
  pattern: PATTERNS,
  generateId: ({ entry }) => idOf(entry) ?? entry,
});

/** The files have no frontmatter. The page's title is the file's first heading. */
const loader: Loader = {
  ...files,
  async load(context) {
    await files.load({
      ...context,
      parseData: (entry) => {
        const file = path.relative(ROOT, entry.filePath ?? '');
        const head = { title: titleOf(file), ...(entry.id === 'index' && landing()) };
        return context.parseData({ ...entry, data: { ...entry.data, ...head } });
      },
    });
    // Astro logs the error of a file and builds an empty page.
    const failed = context.store.values().filter(({ rendered }) => rendered === undefined);
    if (failed.length > 0) throw new Error(`not rendered: ${failed.map(({ id }) => id).join(', ')}`);
  },
};

export const collections = { docs: defineCollection({ loader, schema: docsSchema() }) };
