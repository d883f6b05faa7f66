// The result of a call: text, pictures, sound and files if the result has such, and JSON for the rest.
//
// Knows the content that MCP results have, and the file that `pick_file` gives. Nothing in a result is
// trusted: pictures are shown as pictures only, and only those that are in the result itself; a link is one
// only if it leads to the web.

import { Download } from 'lucide-react';
import type { ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { isRecord } from '../record/isRecord';
import { isOwnPicture } from '../text/address';
import { ExternalLink } from '../text/Links';
import { Text } from '../text/Text';
import { isLong } from '../text/visible';
import { useWhole } from './seen';
import { LongText, Readable } from './ToolValue';

interface Content {
  type: string;
  [field: string]: unknown;
}

/** Returns `true` if a part of a result is for the person: MCP's annotations may reserve it for the model. */
function isForPerson({ annotations }: Content): boolean {
  const audience = isRecord(annotations) ? annotations['audience'] : undefined;
  return !Array.isArray(audience) || audience.length === 0 || audience.includes('user');
}

interface McpResult {
  content: Content[];
  structuredContent?: unknown;
}

const isContent = (value: unknown): value is Content => isRecord(value) && typeof value['type'] === 'string';

export const isMcpResult = (value: unknown): value is McpResult =>
  isRecord(value) &&
  Array.isArray(value['content']) &&
  value['content'].length > 0 &&
  value['content'].every(isContent);

const isText = (value: unknown): value is string => typeof value === 'string';

/** Returns `true` if a result has something to look at, so that it should not be folded away. */
export function hasMedia(output: unknown): boolean {
  if (isMcpResult(output)) return output.content.filter(isForPerson).some(isToLookAt);
  return isOwnPicture(output);
}

const isToLookAt = ({ type, resource }: Content) =>
  type === 'image' || type === 'audio' || (isRecord(resource) && resource['mimeType'] === 'text/markdown');

/** The result of a call. */
export function ToolResult({ output }: { output: unknown }): ReactNode {
  const { t } = useTranslation('cards');
  if (isOwnPicture(output)) return <Picture url={output} name={t('result.picture')} />;
  if (!isMcpResult(output)) return <Readable value={output} />;
  const forPerson = output.content.filter(isForPerson);
  if (forPerson.length === 0 && output.structuredContent === undefined) {
    return <p className="text-sm text-muted">{t('result.forModel')}</p>;
  }
  return (
    <div className="space-y-2">
      {forPerson.map((content, place) => (
        <ContentView key={place} content={content} />
      ))}
      {output.structuredContent !== undefined && !isSaid(output) && (
        <Readable value={output.structuredContent} />
      )}
    </div>
  );
}

/** Servers repeat the structured content as text, for clients that know no other. */
function isSaid({ content, structuredContent }: McpResult): boolean {
  const said = JSON.stringify(structuredContent);
  return content.some(({ type, text }) => {
    return type === 'text' && isText(text) && JSON.stringify(parsed(text)) === said;
  });
}

function ContentView({ content }: { content: Content }): ReactNode {
  const { t } = useTranslation('cards');
  const { type, text, data, mimeType } = content;
  if (type === 'text' && isText(text)) return <TextOrJson text={text} />;
  if (type === 'image' && isText(data) && isText(mimeType)) {
    const url = `data:${mimeType};base64,${data}`;
    if (isOwnPicture(url)) return <Picture url={url} name={t('result.picture')} />;
  }
  if (type === 'audio' && isText(data) && isText(mimeType) && mimeType.startsWith('audio/')) {
    return (
      // eslint-disable-next-line jsx-a11y/media-has-caption -- a tool's sound comes without captions
      <audio
        controls
        src={`data:${mimeType};base64,${data}`}
        aria-label={t('result.sound')}
        className="w-full max-w-sm"
      />
    );
  }
  if (type === 'resource' && isRecord(content['resource']))
    return <Resource resource={content['resource']} />;
  if (type === 'resource_link' && isText(content['uri'])) {
    return <Link uri={content['uri']} name={isText(content['name']) ? content['name'] : content['uri']} />;
  }
  return <Readable value={content} />;
}

function TextOrJson({ text }: { text: string }) {
  const value = parsed(text);
  return isRecord(value) || Array.isArray(value) ? <Readable value={value} /> : <LongText text={text} />;
}

/** Returns the value of a JSON text; `undefined` if it is none. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function Resource({ resource }: { resource: Record<string, unknown> }) {
  const { t } = useTranslation('cards');
  const { uri, text, blob, mimeType } = resource;
  const name = isText(uri) ? uri : t('result.file');
  if (isText(text)) {
    return (
      <figure className="space-y-1">
        <figcaption className="text-xs text-muted wrap-anywhere">{name}</figcaption>
        {mimeType === 'text/markdown' ? <LongMarkdown text={text} /> : <LongText text={text} isCode />}
      </figure>
    );
  }
  if (!isText(blob)) return <Readable value={resource} />;
  const url = `data:${isText(mimeType) ? mimeType : 'application/octet-stream'};base64,${blob}`;
  if (isOwnPicture(url)) return <Picture url={url} name={name} />;
  return (
    <a
      href={url}
      download={name.split('/').at(-1)}
      className="inline-flex min-h-10 items-center gap-1.5 text-sm text-accent hover:underline"
    >
      <Download aria-hidden className="size-4" />
      <span className="wrap-anywhere">{name}</span>
    </a>
  );
}

/** Markdown as such, unless it is so long that its beginning and its end have to do first. */
function LongMarkdown({ text }: { text: string }) {
  const { isWhole } = useWhole();
  return isWhole || !isLong(text) ? <Text text={text} /> : <LongText text={text} />;
}

function Link({ uri, name }: { uri: string; name: string }) {
  if (!/^https?:\/\//i.test(uri))
    return <p className="text-sm wrap-anywhere">{name === uri ? name : `${name} (${uri})`}</p>;
  return (
    <p className="text-sm wrap-anywhere">
      <ExternalLink address={uri} text={name} className="text-accent hover:underline">
        {name}
      </ExternalLink>
    </p>
  );
}

/** A picture that a tool gave. */
export function Picture({ url, name }: { url: string; name: string }) {
  return (
    <img src={url} alt={name} className="max-h-80 max-w-full rounded-lg border border-line object-contain" />
  );
}
