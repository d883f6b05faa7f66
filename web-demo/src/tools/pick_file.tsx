// Lets the person choose a file of their own, and gives what is in it.
//
// A browser opens its file picker only at a press of the person's, so this has no `execute`. The file never
// goes anywhere but into the call's output, and only as much of it as a model can do something with.

import { FileText, Paperclip } from 'lucide-react';
import { useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { isRecord } from '../chat/record/isRecord';
import { Button } from '../chat/ui/Button';
import { sizeWords } from '../chat/ui/words';
import { Picture } from '../chat/values/ToolResult';
import { LongText } from '../chat/values/ToolValue';
import type { PageTool, ToolBodyProps } from './tool';

/** The largest part of a text that is read, in bytes. */
const MAX_TEXT = 100_000;
/** The largest picture that is passed on, in bytes. */
const MAX_IMAGE = 200_000;

export interface PickedFile {
  name: string;
  /** In bytes. */
  size: number;
  type: string;
  /** The content of the file, if it is text. */
  text?: string;
  /** `true` if `text` is its beginning only. */
  truncated?: boolean;
  /** The picture, where it is a small one. */
  dataUrl?: string;
}

export const pickFile: PageTool = {
  description:
    'Lets the user choose a file from their device. Returns its name, size and type, the content ' +
    'of a text file (up to 100 kB), and ' +
    'a small image as a data URL.',
  inputSchema: {
    type: 'object',
    properties: {
      accept: {
        type: 'string',
        description: 'What may be chosen, such as ".csv,text/*"; all files where it is left out.',
      },
      purpose: { type: 'string', description: 'What the file is for; shown to the user.' },
    },
    additionalProperties: false,
  },
  Body: PickFile,
};

const TEXT_TYPES =
  /^(text\/|application\/(json|xml|yaml|x-yaml|toml|javascript|x-sh|sql|x-ndjson|xhtml\+xml)|image\/svg\+xml|.*\+(json|xml)$)/;
const TEXT_NAMES =
  /\.(txt|md|csv|tsv|log|json|jsonl|ya?ml|toml|ini|xml|html?|css|[cm]?[jt]sx?|rs|py|go|java|c|h|cpp|sh|sql|env)$/i;
const IMAGE_TYPES = /^image\/(png|jpeg|gif|webp|avif)$/;

/** Reads what a model can do something with. */
export async function readFile(file: File): Promise<PickedFile> {
  const picked = { name: file.name, size: file.size, type: file.type || 'application/octet-stream' };
  if (IMAGE_TYPES.test(file.type))
    return file.size > MAX_IMAGE ? picked : { ...picked, dataUrl: await dataUrlOf(file) };
  if (!TEXT_TYPES.test(file.type) && !TEXT_NAMES.test(file.name)) return picked;
  const isCut = file.size > MAX_TEXT;
  const bytes = new Uint8Array(await file.slice(0, MAX_TEXT).arrayBuffer());
  // What calls itself text, and holds zeros, is none.
  if (bytes.includes(0)) return picked;
  // `stream` leaves out a character that the cut went through.
  const text = new TextDecoder().decode(bytes, { stream: isCut });
  return { ...picked, text, ...(isCut && { truncated: true }) };
}

function dataUrlOf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => {
      resolve(reader.result as string);
    };
    reader.onerror = () => {
      reject(reader.error ?? new Error(file.name));
    };
    reader.readAsDataURL(file);
  });
}

function PickFile({ input, stage, output, isBusy, answer, fail }: ToolBodyProps) {
  const { accept, purpose } = isRecord(input) ? input : {};
  if (stage === 'done') return <Picked output={output} />;
  return (
    <div className="space-y-3">
      {typeof purpose === 'string' && purpose !== '' && (
        <p dir="auto" className="text-sm leading-6 font-medium wrap-anywhere">
          {purpose}
        </p>
      )}
      {stage === 'waiting' && (
        <Choice accept={typeof accept === 'string' ? accept : undefined} {...{ isBusy, answer, fail }} />
      )}
    </div>
  );
}

function Choice({
  accept,
  isBusy,
  answer,
  fail,
}: Pick<ToolBodyProps, 'isBusy' | 'answer' | 'fail'> & { accept: string | undefined }) {
  const { t } = useTranslation('cards');
  const picker = useRef<HTMLInputElement>(null);
  const [unreadable, setUnreadable] = useState<string>();
  const pick = async (file: File) => {
    setUnreadable(undefined);
    let picked: PickedFile;
    try {
      picked = await readFile(file);
    } catch {
      setUnreadable(file.name);
      return;
    }
    await answer(picked);
  };
  return (
    <div className="space-y-2">
      <p className="text-xs text-muted">{t('file.told')}</p>
      {unreadable !== undefined && (
        <p role="alert" className="text-sm text-bad">
          {t('file.unreadable', { name: unreadable })}
        </p>
      )}
      <input
        ref={picker}
        type="file"
        accept={accept}
        // The button opens it; two ways to the same would be read out twice.
        hidden
        aria-label={t('file.choose')}
        onChange={(event) => {
          const file = event.target.files?.[0];
          // The same file may be chosen again after an error.
          if (file !== undefined)
            void pick(file).finally(() => {
              if (picker.current !== null) picker.current.value = '';
            });
        }}
      />
      <div className="flex flex-wrap gap-2">
        <Button
          tone="primary"
          isBusy={isBusy}
          onClick={() => {
            picker.current?.click();
          }}
        >
          <Paperclip aria-hidden className="size-4" />
          {t('file.choose')}
        </Button>
        <Button tone="quiet" disabled={isBusy} onClick={() => void fail('The user chose no file.')}>
          {t('file.none')}
        </Button>
      </div>
    </div>
  );
}

function Picked({ output }: { output: unknown }) {
  const { t } = useTranslation('cards');
  if (!isRecord(output) || typeof output['name'] !== 'string') return null;
  const { name, size, type, text, truncated, dataUrl } = output;
  return (
    <figure className="space-y-2">
      <figcaption className="flex items-center gap-2 text-sm">
        <FileText aria-hidden className="size-4 shrink-0 text-muted" />
        <span className="font-medium wrap-anywhere">{name}</span>
        <span className="text-xs text-muted">
          {typeof size === 'number' && sizeWords(size)}
          {typeof type === 'string' && ` · ${type}`}
        </span>
      </figcaption>
      {typeof dataUrl === 'string' && dataUrl.startsWith('data:image/') && (
        <Picture url={dataUrl} name={name} />
      )}
      {typeof text === 'string' && (
        <details>
          <summary className="inline-flex min-h-10 cursor-pointer items-center text-sm text-accent sm:min-h-8">
            {t('file.content')}
          </summary>
          <div className="max-h-80 overflow-y-auto rounded-lg bg-sunken px-3 py-2">
            <LongText text={text} isCode />
          </div>
          {truncated === true && <p className="text-xs text-muted">{t('file.truncated')}</p>}
        </details>
      )}
    </figure>
  );
}
