// Colours for a block of code whose language is named, and among these.

import { createLowlight } from 'lowlight';
import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import type { ReactNode } from 'react';

const lowlight = createLowlight({
  bash,
  c,
  css,
  diff,
  go,
  java,
  javascript,
  json,
  python,
  rust,
  sql,
  typescript,
  xml,
  yaml,
});

/** More would make each delta of a long block slow. */
const LONGEST = 20_000;

type Nodes = ReturnType<typeof lowlight.highlight>['children'];

/** The code with its colours, as spans of the classes `hljs-…`; as it is where its language is not known. */
export function highlight(code: string, language: string | undefined): ReactNode {
  if (language === undefined || code.length > LONGEST || !lowlight.registered(language)) return code;
  return spans(lowlight.highlight(language, code).children);
}

function spans(nodes: Nodes): ReactNode {
  return nodes.map((node, place) => {
    if (node.type === 'text') return node.value;
    if (node.type !== 'element') return null;
    const classes = node.properties['className'];
    return (
      <span key={place} className={Array.isArray(classes) ? classes.join(' ') : undefined}>
        {spans(node.children)}
      </span>
    );
  });
}
