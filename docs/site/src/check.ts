// Reads the built pages and fails if a link, a picture or an anchor of the site leads nowhere.

import type { AstroIntegration } from 'astro';
import { fromHtml } from 'hast-util-from-html';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { visit } from 'unist-util-visit';

interface Page {
  ids: Set<string>;
  targets: Set<string>;
}

export function checkLinks(): AstroIntegration {
  let base = '/';
  return {
    name: 'fermata-links',
    hooks: {
      'astro:config:done': ({ config }) => {
        base = config.base;
      },
      'astro:build:done': ({ dir }) => {
        const broken = brokenLinks(fileURLToPath(dir), base.endsWith('/') ? base : `${base}/`);
        if (broken.length > 0) throw new Error(`links lead nowhere:\n${broken.join('\n')}`);
      },
    },
  };
}

/** @param base the path of the site, with slashes at its ends */
function brokenLinks(folder: string, base: string): string[] {
  const pages = new Map<string, Page>();
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (name.endsWith('.html')) pages.set(name, parse(readFileSync(path.join(folder, name), 'utf8')));
  }
  if (pages.size === 0) throw new Error(`${folder} has no pages`);

  const isBroken = (from: string, target: string): boolean => {
    const here = new URL(base + from.replace(/index\.html$/, ''), 'http://site');
    const url = new URL(target, here);
    if (url.origin !== here.origin) return false;
    if (!url.pathname.startsWith(base)) return true;
    const file = path.join(
      decodeURI(url.pathname.slice(base.length)),
      url.pathname.endsWith('/') ? 'index.html' : '',
    );
    const there = path.join(folder, file);
    if (!existsSync(there) || statSync(there).isDirectory()) return true;
    const anchor = decodeURIComponent(url.hash.slice(1));
    return anchor !== '' && !pages.get(file)?.ids.has(anchor);
  };
  return [...pages].flatMap(([from, { targets }]) =>
    [...targets].filter((target) => isBroken(from, target)).map((target) => `  ${from}: ${target}`),
  );
}

function parse(html: string): Page {
  const page: Page = { ids: new Set(), targets: new Set() };
  visit(fromHtml(html), 'element', ({ properties: { id, href, src } }) => {
    if (typeof id === 'string') page.ids.add(id);
    for (const target of [href, src]) {
      if (typeof target === 'string') page.targets.add(target);
    }
  });
  return page;
}
