// Draws a chart of the model's numbers.
//
// The drawing follows from the input alone, so it is there again after a reload; the call itself only says
// that it is shown. The drawing code is loaded when the first chart is to be seen.

import { lazy, Suspense } from 'react';
import { useTranslation } from 'react-i18next';
import { isRecord } from '../chat/record/isRecord';
import type { ChartInput, Series } from './ChartDrawing';
import type { PageTool, ToolBodyProps } from './tool';

export const showChart: PageTool = {
  description:
    'Draws a chart in the chat. A pie shows the first series only. Every series has one value for each label.',
  inputSchema: {
    type: 'object',
    properties: {
      title: { type: 'string' },
      kind: { enum: ['bar', 'line', 'pie'] },
      labels: { type: 'array', items: { type: 'string' }, minItems: 1 },
      series: {
        type: 'array',
        minItems: 1,
        items: {
          type: 'object',
          properties: { name: { type: 'string' }, values: { type: 'array', items: { type: 'number' } } },
          required: ['name', 'values'],
          additionalProperties: false,
        },
      },
    },
    required: ['title', 'kind', 'labels', 'series'],
    additionalProperties: false,
  },
  repeatable: true,
  execute: (input) => {
    const chart = readChart(input);
    if (typeof chart === 'string') throw new Error(chart);
    return { shown: true };
  },
  Body: ShowChart,
};

/** The chart, or what is wrong with it. */
export function readChart(input: unknown): ChartInput | string {
  if (!isRecord(input)) return 'The input must be an object.';
  const { title, kind, labels, series } = input;
  if (kind !== 'bar' && kind !== 'line' && kind !== 'pie') return 'kind must be bar, line or pie.';
  if (!Array.isArray(labels) || labels.length === 0)
    return 'labels must be a list of texts, one for each value.';
  if (!Array.isArray(series) || series.length === 0) return 'series must be a list of {name, values}.';
  const read: Series[] = [];
  for (const one of series as unknown[]) {
    const { name, values } = isRecord(one) ? one : {};
    const isNumbers = Array.isArray(values) && values.every((value) => typeof value === 'number');
    if (!isNumbers || values.length !== labels.length)
      return `Every series needs ${labels.length} numbers, one for each label.`;
    read.push({ name: typeof name === 'string' ? name : '', values });
  }
  return {
    title: typeof title === 'string' ? title : '',
    kind,
    labels: labels.map(String),
    series: kind === 'pie' ? read.slice(0, 1) : read,
  };
}

const Drawing = lazy(() => import('./ChartDrawing'));

function ShowChart({ input, stage }: ToolBodyProps) {
  const { t } = useTranslation('cards');
  const chart = readChart(input);
  if (stage === 'over' || typeof chart === 'string') return null;
  return (
    <figure className="space-y-2">
      <figcaption dir="auto" className="text-sm font-medium wrap-anywhere">
        {chart.title}
      </figcaption>
      <div className="relative h-64 w-full">
        <Suspense fallback={<p className="text-sm text-muted">{t('chart.loading')}</p>}>
          <Drawing chart={chart} />
        </Suspense>
      </div>
      <Numbers chart={chart} />
    </figure>
  );
}

/** The same as a table: for those who cannot see the drawing, or want the numbers. */
function Numbers({ chart }: { chart: ChartInput }) {
  const { t } = useTranslation('cards');
  return (
    <details>
      <summary className="inline-flex min-h-10 cursor-pointer items-center text-sm text-accent sm:min-h-8">
        {t('chart.numbers')}
      </summary>
      <div className="overflow-x-auto">
        <table className="w-full text-left text-sm tabular-nums">
          <caption className="sr-only">{chart.title}</caption>
          <thead className="text-xs text-muted">
            <tr>
              <td />
              {chart.series.map(({ name }, at) => (
                <th key={at} scope="col" className="px-2 py-1 text-right font-medium">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {chart.labels.map((label, row) => (
              <tr key={row} className="border-t border-line">
                <th scope="row" className="py-1 pr-2 font-normal">
                  {label}
                </th>
                {chart.series.map(({ values }, at) => (
                  <td key={at} className="px-2 py-1 text-right">
                    {values[row]}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
