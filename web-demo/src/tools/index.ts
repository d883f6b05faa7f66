// The tools of this page, by name: what the model is offered, and how their cards look.

import type { PageRuns } from '../chat/record/toolState';
import { askQuestion } from './ask_question';
import { createRecord } from './create_record';
import { getLocation } from './get_location';
import { pickFile } from './pick_file';
import { showChart } from './show_chart';
import type { PageTool } from './tool';

export type { PageTool, ToolBodyProps } from './tool';

const tools = {
  get_location: getLocation,
  ask_question: askQuestion,
  pick_file: pickFile,
  show_chart: showChart,
  create_record: createRecord,
} satisfies Record<string, PageTool>;

export type PageToolName = keyof typeof tools;

/** For `fermata({ tools })`, and for the cards. */
export const browserTools: Record<string, PageTool> = tools;

/** Returns `true` if this page has a tool of that name. A model may make up any name, such as those that every object has. */
export const isPageTool = (name: string): name is PageToolName => Object.hasOwn(tools, name);

export const pageTool = (name: string): PageTool | undefined => (isPageTool(name) ? tools[name] : undefined);

/** Returns the way that a tool of this page runs; `undefined` if the page lacks it. */
export const pageRuns: PageRuns = (name) => {
  const tool = pageTool(name);
  if (tool === undefined) return undefined;
  return tool.execute === undefined ? 'with-the-person' : 'by-itself';
};
