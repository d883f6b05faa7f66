// What a call would do, as its tool says: a difference, line by line, for an edit; a text for anything else.
//
// It comes with the page, and is not loaded when it is needed: what appeared later would push the buttons below it from
// under a person's finger, who could have pressed them without having seen it.

import { useTranslation } from 'react-i18next';
import type { CallDetails as Details } from 'fermata-chat';
import { isRecord } from '../record/isRecord';
import { inOneLine } from '../text/visible';
import { Name } from '../values/ToolValue';
import { Difference } from './Difference';

/**
 * The details; `data` comes from the server, and something else is shown as nothing. `title` is that of the card, which need not be
 * said again.
 */
export function CallDetails({ data, title }: { data: unknown; title: string }) {
  const { t } = useTranslation('runs');
  if (!isDetails(data)) return null;
  const { kind, text, before = '', after = '' } = data;
  const isSaid = title.includes(inOneLine(text));
  if (isSaid && kind !== 'edit') return null;
  return (
    <figure className="text-sm" data-details={kind}>
      {!isSaid && (
        <figcaption className="mb-1 text-muted wrap-anywhere">
          {t(`details.${kind}`)}{' '}
          <span className="font-mono text-ink">
            <Name text={text} />
          </span>
        </figcaption>
      )}
      {kind === 'edit' && <Difference before={before} after={after} />}
    </figure>
  );
}

export const isDetails = (data: unknown): data is Details =>
  isRecord(data) &&
  typeof data['text'] === 'string' &&
  ['edit', 'run', 'send', 'info'].includes(data['kind'] as string);
