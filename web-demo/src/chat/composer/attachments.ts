// Files that a person adds to a message, as data URLs: the server keeps what is in the message, and has no
// upload.

import type { FilePart } from '../record/message';

/** The largest file, in bytes. A post is at most 10 MB, and a data URL is a third longer than its file. */
export const LARGEST = 5_000_000;

/** Text that browsers have no `text/…` type for. */
const TEXT_TYPES = /^(text\/|application\/(json|xml|x-yaml|yaml|toml|javascript|x-sh|sql)\b)/;
const TEXT_NAMES =
  /\.(txt|md|markdown|csv|tsv|log|json|ya?ml|toml|xml|html?|css|[cm]?[jt]sx?|rs|py|go|rb|java|kt|c|h|cpp|sh|sql)$/i;

export type Refusal = 'refusedType' | 'refusedSize';

/** The media type of the file for the model; `undefined` if it is neither an image nor text. */
export function mediaTypeOf({ type, name }: { type: string; name: string }): string | undefined {
  if (type.startsWith('image/')) return type;
  if (TEXT_TYPES.test(type) || (!type.includes('/') && TEXT_NAMES.test(name)) || TEXT_NAMES.test(name))
    return 'text/plain';
  return undefined;
}

export function refusalOf(file: { type: string; name: string; size: number }): Refusal | undefined {
  if (mediaTypeOf(file) === undefined) return 'refusedType';
  return file.size > LARGEST ? 'refusedSize' : undefined;
}

/** The file of a part of a message, which has its content in its URL. */
export function fileOf({ url, mediaType, filename = '' }: FilePart): File {
  const comma = url.indexOf(',');
  const content = url.slice(comma + 1);
  const text = url.slice(0, comma).endsWith(';base64') ? atob(content) : decodeURIComponent(content);
  return new File([Uint8Array.from(text, (byte) => byte.charCodeAt(0))], filename, { type: mediaType });
}

/** The file as a part of a message. */
export function filePart(file: File): Promise<FilePart> {
  const mediaType = mediaTypeOf(file) ?? 'text/plain';
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => {
      // The browser's own idea of the type is in the URL; it must say the same as the part.
      const data = (reader.result as string).replace(/^data:[^,]*?(;base64)?,/, `data:${mediaType}$1,`);
      resolve({ type: 'file', mediaType, filename: file.name, url: data });
    };
    reader.onerror = () => {
      reject(reader.error ?? new Error(file.name));
    };
    reader.readAsDataURL(file);
  });
}
