// The progress of a call while it runs, if it reports any, or else its output so far.

import { useTranslation } from 'react-i18next';
import { isRecord } from '../record/isRecord';
import { ToolResult } from '../values/ToolResult';

export interface Progress {
  progress: number;
  total?: number;
  message?: string;
}

/** A report of how far a call is; nothing else may be in it, or it is an output like any other. */
export function asProgress(output: unknown): Progress | undefined {
  if (!isRecord(output)) return undefined;
  const { progress, total, message, ...more } = output;
  if (typeof progress !== 'number' || Object.keys(more).length > 0) return undefined;
  return {
    progress,
    ...(typeof total === 'number' && total > 0 && { total }),
    ...(typeof message === 'string' && { message }),
  };
}

/** The live output of a call. */
export function ToolProgress({ output }: { output: unknown }) {
  const { t } = useTranslation('cards');
  const report = asProgress(output);
  if (report === undefined) {
    return (
      <div aria-live="polite" className="border-l-2 border-accent pl-3">
        <ToolResult output={output} />
      </div>
    );
  }
  const { progress, total, message } = report;
  const share = total === undefined ? undefined : Math.min(1, Math.max(0, progress / total));
  const steps =
    total === undefined ? t('progress.count', { progress }) : t('progress.of', { progress, total });
  return (
    <div className="space-y-1.5">
      <p className="flex justify-between gap-3 text-xs text-muted">
        <span aria-live="polite" className="min-w-0 wrap-anywhere">
          {message ?? t('progress.running')}
        </span>
        <span className="shrink-0 tabular-nums">{steps}</span>
      </p>
      <div
        role="progressbar"
        aria-label={message ?? t('progress.running')}
        aria-valuetext={steps}
        {...(share !== undefined && { 'aria-valuenow': Math.round(share * 100) })}
        className="h-1.5 overflow-hidden rounded-full bg-sunken"
      >
        <div
          className={
            'h-full rounded-full bg-accent motion-safe:transition-[width] ' +
            (share === undefined ? 'w-1/3 motion-safe:animate-pulse' : '')
          }
          style={share === undefined ? undefined : { width: `${share * 100}%` }}
        />
      </div>
    </div>
  );
}
