// Keeps a record in this browser, once the person agrees.
//
// Invariants: nothing is written before that; a call writes once, and the model receives the record that is really kept.
// So the record of a call is taken back where the call was answered otherwise meanwhile, and a "no" to what
// another tab has already written is a "yes".

import { Database, Trash2 } from 'lucide-react';
import { useState, useSyncExternalStore } from 'react';
import { useTranslation } from 'react-i18next';
import { isRecord } from '../chat/record/isRecord';
import { Button } from '../chat/ui/Button';
import { Readable } from '../chat/values/ToolValue';
import { forget, onChange, recordOf, records, write, type StoredRecord } from './records';
import type { PageTool, ToolBodyProps } from './tool';

export const createRecord: PageTool = {
  description:
    'Keeps a record in the user’s browser. The user is asked before it is written. Returns its id.',
  inputSchema: {
    type: 'object',
    properties: {
      collection: { type: 'string', description: 'Which kind of records it belongs to, such as "contacts".' },
      title: { type: 'string', description: 'What the record is called.' },
      data: { type: 'object', description: 'What it says, as fields.' },
    },
    required: ['collection', 'title'],
    additionalProperties: false,
  },
  Body: CreateRecord,
};

const outputOf = ({ id, collection, title, at }: StoredRecord) => ({
  created: true,
  id,
  collection,
  title,
  at,
});

function CreateRecord({ toolCallId, input, stage, isBusy, answer, fail }: ToolBodyProps) {
  const { collection, title, data } = isRecord(input) ? input : {};
  const wanted = {
    collection: typeof collection === 'string' ? collection : '',
    title: typeof title === 'string' ? title : '',
    ...(data !== undefined && { data }),
  };
  return (
    <div className="space-y-3">
      {stage !== 'over' && (
        <div className="space-y-1 rounded-lg bg-sunken px-3 py-2 text-sm">
          <p className="text-xs text-muted">{wanted.collection}</p>
          <p dir="auto" className="font-medium wrap-anywhere">
            {wanted.title}
          </p>
          {data !== undefined && <Readable value={data} />}
        </div>
      )}
      {stage === 'waiting' && <Question {...{ toolCallId, wanted, isBusy, answer, fail }} />}
      {stage === 'done' && <Kept id={toolCallId} />}
    </div>
  );
}

interface QuestionProps extends Pick<ToolBodyProps, 'toolCallId' | 'isBusy' | 'answer' | 'fail'> {
  wanted: Pick<StoredRecord, 'collection' | 'title' | 'data'>;
}

function Question({ toolCallId, wanted, isBusy, answer, fail }: QuestionProps) {
  const { t } = useTranslation('cards');
  const [isRefused, setRefused] = useState(false);
  const keep = async () => {
    setRefused(false);
    let written: ReturnType<typeof write>;
    try {
      written = write(toolCallId, wanted);
    } catch {
      setRefused(true);
      return;
    }
    const wasTaken = await answer(outputOf(written.record));
    if (wasTaken === 'elsewhere' && written.isNew) forget(toolCallId);
  };
  const leave = async () => {
    const known = recordOf(toolCallId);
    await (known === undefined
      ? fail('The user did not want this record to be kept.')
      : answer(outputOf(known)));
  };
  return (
    <div className="space-y-3">
      <p className="text-sm">{t('record.question')}</p>
      {isRefused && (
        <p role="alert" className="text-sm text-bad">
          {t('record.refused')}
        </p>
      )}
      <div className="flex flex-wrap gap-2">
        <Button tone="primary" isBusy={isBusy} onClick={() => void keep()}>
          {t('record.keep')}
        </Button>
        <Button disabled={isBusy} onClick={() => void leave()}>
          {t('record.leave')}
        </Button>
      </div>
    </div>
  );
}

/** The snapshot is text, so that equal lists are the same to React. */
const snapshot = () => JSON.stringify(records());
const empty = () => '[]';

function Kept({ id }: { id: string }) {
  const { t } = useTranslation('cards');
  const all = JSON.parse(useSyncExternalStore(onChange, snapshot, empty)) as StoredRecord[];
  const isThere = all.some((record) => record.id === id);
  return (
    <div className="space-y-1">
      <p className="flex items-center gap-2 text-sm text-muted">
        <Database aria-hidden className="size-4" />
        {t(isThere ? 'record.kept' : 'record.forgotten')}
      </p>
      {all.length > 0 && (
        <details>
          <summary className="inline-flex min-h-10 cursor-pointer items-center text-sm text-accent sm:min-h-8">
            {t('record.all', { count: all.length })}
          </summary>
          <StoredRecords all={all} />
        </details>
      )}
    </div>
  );
}

/** The records in this browser, with a way to forget them. */
function StoredRecords({ all }: { all: StoredRecord[] }) {
  const { t } = useTranslation('cards');
  return (
    <ul className="divide-y divide-line">
      {all.map(({ id, collection, title }) => (
        <li key={id} className="flex items-center justify-between gap-2 py-1 text-sm">
          <span className="min-w-0 wrap-anywhere">
            {title} <span className="text-xs text-muted">{collection}</span>
          </span>
          <Button
            tone="quiet"
            aria-label={t('record.forget', { title })}
            title={t('record.forget', { title })}
            onClick={() => {
              forget(id);
            }}
            className="w-10 px-0"
          >
            <Trash2 aria-hidden className="size-4" />
          </Button>
        </li>
      ))}
    </ul>
  );
}
