// Adapts the Markdown of a file of the repository to a page of the site.

import type { AstroIntegration } from 'astro';
import type { Root } from 'mdast';
import path from 'node:path';
import { SKIP, visit } from 'unist-util-visit';
import type { VFile } from 'vfile';
import { addressOf, resolve, ROOT } from './documents.ts';

export function markdown(): AstroIntegration {
  return {
    name: 'fermata-markdown',
    hooks: {
      'astro:config:setup': ({ config, updateConfig }) => {
        updateConfig({ markdown: { remarkPlugins: [[adapt, { base: config.base }]] } });
      },
    },
  };
}

function adapt({ base }: { base: string }) {
  return (tree: Root, vfile: VFile) => {
    const file = path.relative(ROOT, vfile.path);
    // Starlight shows the title, and on the first page the paragraph below it.
    const heading = tree.children.findIndex((node) => node.type === 'heading' && node.depth === 1);
    tree.children.splice(heading, file === 'README.md' ? 2 : 1);

    visit(tree, (node, index, parent) => {
      if (node.type === 'link' || node.type === 'definition') {
        node.url = resolve(file, node.url, (id) => addressOf(id, base));
      }
      // Astro takes a path without a dot for the name of a package.
      if (node.type === 'image' && !/^(\.|[a-z]+:)/.test(node.url)) node.url = `./${node.url}`;
      // Comments are for those who edit the file.
      if (node.type === 'html' && /^<!--[\s\S]*-->$/.test(node.value) && parent && index !== undefined) {
        parent.children.splice(index, 1);
        return [SKIP, index];
      }
      return undefined;
    });
  };
}
