// Any value, to be read: fields and texts as such, with the JSON behind them. Long ones are cut until
// somebody asks for all.

import { useState, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { isRecord } from '../record/isRecord';
import { invisibleIn, shown, type Piece } from '../text/visible';
import { MAX_DEPTH, MAX_FIELDS, toJson } from './cut';
import { useWhole } from './seen';

/** Shows all of something, where it was cut. */
function ShowAll({ onShow }: { onShow: () => void }) {
  const { t } = useTranslation('cards');
  return (
    <button
      type="button"
      onClick={onShow}
      className={
        'inline-flex min-h-10 items-center rounded text-sm font-medium text-accent ' +
        'underline-offset-2 hover:underline focus-visible:outline-2 focus-visible:outline-accent ' +
        'sm:min-h-8'
      }
    >
      {t('value.showAll')}
    </button>
  );
}

/** Text that shows even invisible characters. */
function Pieces({ pieces }: { pieces: Piece[] }) {
  const { t } = useTranslation('cards');
  return pieces.map((piece, place) => {
    if (typeof piece === 'string') return piece;
    const words =
      'count' in piece
        ? t(`value.${piece.kind}`, { count: piece.count })
        : piece.kind === 'mixed'
          ? `${piece.letter} ${piece.code}`
          : piece.code;
    const look = 'count' in piece ? 'bg-sunken text-muted' : 'bg-bad-soft text-bad';
    return (
      <mark key={place} className={`rounded px-1 font-mono text-xs ${look}`}>
        {words}
      </mark>
    );
  });
}

/** A name that shows even invisible characters. */
export const Name = ({ text }: { text: string }) => (
  <bdi>
    <Pieces pieces={shown(text, true).head} />
  </bdi>
);

/** A text with its line ends: its beginning and its end, if it is long. */
export function LongText({ text, isCode = false }: { text: string; isCode?: boolean }) {
  const { t } = useTranslation('cards');
  const { isWhole, showAll } = useWhole();
  const { head, cut } = shown(text, isWhole);
  const direction = isCode ? 'ltr' : 'auto';
  const look =
    'whitespace-pre-wrap wrap-anywhere ' +
    (isCode ? 'font-mono text-[0.8125rem] leading-5' : 'font-sans text-sm leading-6');
  return (
    <>
      <pre dir={direction} className={look}>
        <Pieces pieces={head} />
      </pre>
      {cut !== undefined && (
        <>
          <p className="my-1 flex flex-wrap items-center gap-x-3 border-y border-dashed border-line text-xs text-muted">
            {t('value.hidden', { count: cut.lines, characters: cut.characters })}
            <ShowAll onShow={showAll} />
          </p>
          <pre dir={direction} className={look}>
            <Pieces pieces={cut.tail} />
          </pre>
        </>
      )}
    </>
  );
}

/** That there is more of a list. */
function Hidden({ count, onShow }: { count: number; onShow: () => void }) {
  const { t } = useTranslation('cards');
  return (
    <p className="flex flex-wrap items-center gap-x-3 text-xs text-muted">
      {t('value.hiddenItems', { count })}
      <ShowAll onShow={onShow} />
    </p>
  );
}

/** A value as JSON. */
export function Json({ value }: { value: unknown }) {
  return (
    <div className="rounded-lg bg-sunken px-3 py-2">
      <LongText text={toJson(value)} isCode />
    </div>
  );
}

/** A value to be read. */
export function Readable({ value, depth = 0 }: { value: unknown; depth?: number }): ReactNode {
  const { t } = useTranslation('cards');
  if (typeof value === 'string')
    return value === '' ? <Faint>{t('value.emptyText')}</Faint> : <LongText text={value} />;
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
  const { isWhole, showAll } = useWhole();
  const entries = Object.entries(value);
  if (entries.length === 0) return <Faint>{t('value.nothing')}</Faint>;
  const fields = isWhole ? entries : entries.slice(0, MAX_FIELDS);
  return (
    <div>
      <dl className="grid grid-cols-1 gap-x-4 gap-y-1.5 text-sm sm:grid-cols-[minmax(4rem,max-content)_minmax(0,1fr)]">
        {fields.map(([name, field]) => (
          <div key={name} className="min-w-0 sm:contents">
            <dt className="leading-6 text-muted wrap-anywhere sm:max-w-48">
              <Name text={name} />
            </dt>
            <dd className="min-w-0 leading-6 wrap-anywhere">
              <Readable value={field} depth={depth + 1} />
            </dd>
          </div>
        ))}
      </dl>
      {fields.length < entries.length && <Hidden count={entries.length - fields.length} onShow={showAll} />}
    </div>
  );
}

/** Returns `true` if a value reads well in a row. */
const isShort = (value: unknown) =>
  typeof value === 'number' ||
  (typeof value === 'string' && /^[^,\n]{1,40}$/.test(value) && invisibleIn(value).length === 0);

function Items({ value, depth }: { value: unknown[]; depth: number }) {
  const { t } = useTranslation('cards');
  const { isWhole, showAll } = useWhole();
  if (value.length === 0) return <Faint>{t('value.nothing')}</Faint>;
  if (value.length <= MAX_FIELDS && value.every(isShort)) return <>{value.join(', ')}</>;
  const items = isWhole ? value : value.slice(0, MAX_FIELDS);
  return (
    <>
      <ul className="space-y-1.5 border-l border-line pl-3 text-sm">
        {items.map((item, place) => (
          <li key={place} dir="auto" className="leading-6 wrap-anywhere">
            <Readable value={item} depth={depth + 1} />
          </li>
        ))}
      </ul>
      {items.length < value.length && <Hidden count={value.length - items.length} onShow={showAll} />}
    </>
  );
}

/** A value under a heading, to be read or as JSON. */
export function ValueSection({
  label,
  value,
  children,
}: {
  label: string;
  value: unknown;
  children?: ReactNode;
}) {
  const { t } = useTranslation('cards');
  const [isRaw, setRaw] = useState(false);
  return (
    <div role="group" aria-label={label} className="space-y-1">
      <div className="flex min-h-8 items-center justify-between gap-2">
        <h3 className="text-xs font-medium text-muted">{label}</h3>
        <button
          type="button"
          aria-pressed={isRaw}
          aria-label={t('value.asJson', { label })}
          onClick={() => {
            setRaw(!isRaw);
          }}
          className={
            '-mr-2 min-h-10 rounded-md px-2 font-mono text-xs text-muted hover:text-ink ' +
            'focus-visible:outline-2 focus-visible:outline-accent aria-pressed:text-accent sm:min-h-8'
          }
        >
          {t('value.json')}
        </button>
      </div>
      {isRaw ? <Json value={value} /> : (children ?? <Readable value={value} />)}
    </div>
  );
}
