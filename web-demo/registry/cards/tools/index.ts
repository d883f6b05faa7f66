// The tools of your page, by name: what the model is offered, and how their cards look. Put yours here, and give `browserTools` to
// `fermata({ tools })` or `useFermataChat({ tools })`.

import type { PageRuns } from '../chat/record/toolState';
import type { PageTool } from './tool';

export type { PageTool, ToolBodyProps } from './tool';

const tools = {} satisfies Record<string, PageTool>;

export type PageToolName = keyof typeof tools;

export const browserTools: Record<string, PageTool> = tools;

/** Returns `true` if this page has a tool of that name. The texts need a title for each: `pageTools` in `i18n/en/cards.ts`. */
export const isPageTool = (name: string): name is PageToolName => Object.hasOwn(tools, name);

export const pageTool = (name: string): PageTool | undefined =>
  Object.hasOwn(browserTools, name) ? browserTools[name] : undefined;

/** Returns the way that a tool of this page runs; `undefined` if the page lacks it. */
export const pageRuns: PageRuns = (name) => {
  const tool = pageTool(name);
  if (tool === undefined) return undefined;
  return tool.execute === undefined ? 'with-the-person' : 'by-itself';
};
