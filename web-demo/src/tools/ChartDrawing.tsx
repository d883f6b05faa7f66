// The drawing of a chart, in a file of its own so that a page without charts need not load what draws them.

import {
  ArcElement,
  BarController,
  BarElement,
  CategoryScale,
  Chart,
  Filler,
  Legend,
  LinearScale,
  LineController,
  LineElement,
  PieController,
  PointElement,
  Tooltip,
  type ChartConfiguration,
} from 'chart.js';
import { useEffect, useRef } from 'react';
import { useTranslation } from 'react-i18next';

export interface Series {
  name: string;
  values: number[];
}

export interface ChartInput {
  title: string;
  kind: 'bar' | 'line' | 'pie';
  labels: string[];
  series: Series[];
}

Chart.register(
  ArcElement,
  BarController,
  BarElement,
  CategoryScale,
  Filler,
  Legend,
  LinearScale,
  LineController,
  LineElement,
  PieController,
  PointElement,
  Tooltip,
);

/** The page's own colours first; mixed with its ink they last for more series than are good to read. */
function palette(style: CSSStyleDeclaration): string[] {
  const colours = ['--accent', '--wait', '--good', '--bad', '--muted'].map((name) =>
    style.getPropertyValue(name).trim(),
  );
  const ink = style.getPropertyValue('--ink').trim();
  return [...colours, ...colours.map((colour) => `color-mix(in srgb, ${colour} 55%, ${ink})`)];
}

function configuration(
  chart: ChartInput,
  style: CSSStyleDeclaration,
  isAnimated: boolean,
): ChartConfiguration<ChartInput['kind']> {
  const colours = palette(style);
  const colour = (place: number) => colours[place % colours.length] ?? '';
  const [line, muted, paper] = ['--line', '--muted', '--raised'].map((name) =>
    style.getPropertyValue(name).trim(),
  );
  const isPie = chart.kind === 'pie';
  const axis = { grid: { color: line }, border: { color: line }, ticks: { color: muted } };
  return {
    type: chart.kind,
    data: {
      labels: chart.labels,
      datasets: chart.series.map(({ name, values }, place) => ({
        label: name,
        data: values,
        backgroundColor: isPie ? chart.labels.map((_, at) => colour(at)) : colour(place),
        borderColor: isPie ? paper : colour(place),
        borderWidth: chart.kind === 'bar' ? 0 : 2,
        borderRadius: chart.kind === 'bar' ? 4 : 0,
        maxBarThickness: 48,
        tension: 0.25,
      })),
    },
    options: {
      maintainAspectRatio: false,
      ...(!isAnimated && { animation: false }),
      ...(!isPie && {
        scales: { x: { ...axis, grid: { display: false } }, y: { ...axis, beginAtZero: true } },
      }),
      plugins: {
        legend: {
          display: isPie || chart.series.length > 1,
          position: 'bottom',
          labels: { color: muted, boxWidth: 12, boxHeight: 12 },
        },
      },
    },
  };
}

export default function ChartDrawing({ chart }: { chart: ChartInput }) {
  const { t } = useTranslation('cards');
  const canvas = useRef<HTMLCanvasElement>(null);
  // Parts are new objects with every delta of their message; only a change of content may redraw the chart.
  const drawn = JSON.stringify(chart);
  useEffect(() => {
    const element = canvas.current;
    if (element === null) return;
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    const draw = (isAnimated: boolean) =>
      new Chart(
        element,
        configuration(JSON.parse(drawn) as ChartInput, getComputedStyle(element), isAnimated),
      );
    let shown = draw(!still);
    const themes = new MutationObserver(() => {
      shown.destroy();
      shown = draw(false);
    });
    themes.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
    return () => {
      themes.disconnect();
      shown.destroy();
    };
  }, [drawn]);
  return (
    <div role="img" aria-label={t('chart.label', { title: chart.title })} className="size-full">
      <canvas ref={canvas} />
    </div>
  );
}
