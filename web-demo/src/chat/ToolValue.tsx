// Any value, to be read: fields and texts as such, with the JSON behind them. Long ones are cut until somebody asks for all.

import { useState, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { isRecord } from '../tools/tool';

const MAX_TEXT = 1_500;
const MAX_LINES = 24;
const MAX_FIELDS = 24;
/** Fields inside fields inside fields read no better than JSON. */
const MAX_DEPTH = 3;

/** A value as JSON, also where it is none: a tool of the page may give anything. */
export function toJson(value: unknown): string {
  try {
    return value === undefined ? 'undefined' : JSON.stringify(value, null, 2);
  } catch {
    return String(value);
  }
}

function cut(text: string): string {
  const lines = text.split('\n', MAX_LINES + 1);
  const fewer = lines.length > MAX_LINES ? lines.slice(0, MAX_LINES).join('\n') : text;
  return fewer.length > MAX_TEXT ? fewer.slice(0, MAX_TEXT) : fewer;
}

/** Shows all of something, where it was cut. */
function ShowAll({ onShow }: { onShow: () => void }) {
  const { t } = useTranslation('cards');
  return (
    <button
      type="button"
      onClick={onShow}
      className="inline-flex min-h-10 items-center rounded text-sm font-medium text-accent underline-offset-2 hover:underline focus-visible:outline-2 focus-visible:outline-accent sm:min-h-8"
    >
      {t('value.showAll')}
    </button>
  );
}

/** A text with its line ends. */
export function LongText({ text, isCode = false }: { text: string; isCode?: boolean }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? text : cut(text);
  const isCut = shown.length < text.length;
  const look = isCode ? 'font-mono text-[0.8125rem] leading-5' : 'font-sans text-sm leading-6';
  return (
    <>
      <pre className={`whitespace-pre-wrap wrap-anywhere ${look}`}>
        {shown}
        {isCut && '…'}
      </pre>
      {isCut && <ShowAll onShow={() => { setWhole(true); }} />}
    </>
  );
}

/** A value as JSON. */
export function Json({ value }: { value: unknown }) {
  return (
    <div className="max-h-96 overflow-y-auto rounded-lg bg-sunken px-3 py-2">
      <LongText text={toJson(value)} isCode />
    </div>
  );
}

/** A value to be read. */
export function Readable({ value, depth = 0 }: { value: unknown; depth?: number }): ReactNode {
  const { t } = useTranslation('cards');
  if (typeof value === 'string') return value === '' ? <Faint>{t('value.emptyText')}</Faint> : <LongText text={value} />;
  if (value === null) return <Faint>{t('value.none')}</Faint>;
  if (typeof value === 'boolean') return t(value ? 'value.yes' : 'value.no');
  if (typeof value === 'number') return <span className="tabular-nums">{value}</span>;
  if (depth >= MAX_DEPTH) return <Json value={value} />;
  if (isRecord(value)) return <Fields value={value} depth={depth} />;
  if (Array.isArray(value)) return <Items value={value} depth={depth} />;
  return <Json value={value} />;
}

const Faint = ({ children }: { children: ReactNode }) => <span className="text-muted">{children}</span>;

function Fields({ value, depth }: { value: Record<string, unknown>; depth: number }) {
  const { t } = useTranslation('cards');
  const [isWhole, setWhole] = useState(false);
  const entries = Object.entries(value);
  if (entries.length === 0) return <Faint>{t('value.nothing')}</Faint>;
  const shown = isWhole ? entries : entries.slice(0, MAX_FIELDS);
  return (
    <div>
      <dl className="grid grid-cols-1 gap-x-4 gap-y-1.5 text-sm sm:grid-cols-[minmax(4rem,max-content)_minmax(0,1fr)]">
        {shown.map(([name, field]) => (
          <div key={name} className="min-w-0 sm:contents">
            <dt className="leading-6 text-muted wrap-anywhere sm:max-w-48">{name}</dt>
            <dd className="min-w-0 leading-6 wrap-anywhere">
              <Readable value={field} depth={depth + 1} />
            </dd>
          </div>
        ))}
      </dl>
      {shown.length < entries.length && <ShowAll onShow={() => { setWhole(true); }} />}
    </div>
  );
}

/** What reads well in a row. */
const isShort = (value: unknown) => typeof value === 'number' || (typeof value === 'string' && /^[^,\n]{1,40}$/.test(value));

function Items({ value, depth }: { value: unknown[]; depth: number }) {
  const { t } = useTranslation('cards');
  const [isWhole, setWhole] = useState(false);
  if (value.length === 0) return <Faint>{t('value.nothing')}</Faint>;
  if (value.length <= MAX_FIELDS && value.every(isShort)) return <>{value.join(', ')}</>;
  const shown = isWhole ? value : value.slice(0, MAX_FIELDS);
  return (
    <>
      <ul className="space-y-1.5 border-l border-line pl-3 text-sm">
        {shown.map((item, place) => (
          <li key={place} className="leading-6 wrap-anywhere">
            <Readable value={item} depth={depth + 1} />
          </li>
        ))}
      </ul>
      {shown.length < value.length && <ShowAll onShow={() => { setWhole(true); }} />}
    </>
  );
}

/** A value under a heading, to be read or as JSON. */
export function ValueSection({ label, value, children }: { label: string; value: unknown; children?: ReactNode }) {
  const { t } = useTranslation('cards');
  const [isRaw, setRaw] = useState(false);
  return (
    <div role="group" aria-label={label} className="space-y-1">
      <div className="flex min-h-8 items-center justify-between gap-2">
        <h4 className="text-xs font-medium text-muted">{label}</h4>
        <button
          type="button"
          aria-pressed={isRaw}
          aria-label={t('value.asJson', { label })}
          onClick={() => { setRaw(!isRaw); }}
          className="-mr-2 min-h-10 rounded-md px-2 font-mono text-xs text-muted hover:text-ink focus-visible:outline-2 focus-visible:outline-accent aria-pressed:text-accent sm:min-h-8"
        >
          {t('value.json')}
        </button>
      </div>
      {isRaw ? <Json value={value} /> : (children ?? <Readable value={value} />)}
    </div>
  );
}
