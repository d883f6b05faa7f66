// What keeps a value from fitting a JSON Schema, and where in it.
//
// The validator interprets the schema and compiles nothing, so it works where the page may not evaluate code.
// It is a courtesy: the server checks again, and where this one cannot read a schema it stays silent.

import { Validator, type OutputUnit, type SchemaDraft } from '@cfworker/json-schema';
import type { RefusedPlace } from 'fermata-chat';
import type { TFunction } from 'i18next';
import { isRecord } from '../record/isRecord';
import { lookUp, type Schema } from './schemaFields';

export interface Issue {
  /** JSON Pointer to the value. */
  pointer: string;
  /** The keyword of the schema, or `server` where the server said it. */
  keyword: string;
  /** The message of the validator or the server. */
  detail: string;
  /** The limit of the schema there. */
  limit?: string;
}

/** A place in a value as JSON Pointer. */
export const pointerTo = (pointer: string, name: string | number): string =>
  `${pointer}/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`;

/** Keywords that only lead to what is wrong further in. */
const WAYS = new Set([
  '$ref',
  'properties',
  'patternProperties',
  'additionalProperties',
  'items',
  'prefixItems',
  'allOf',
  'if',
  'then',
  'else',
]);

function draftOf({ $schema }: Schema): SchemaDraft {
  if (typeof $schema !== 'string') return '2020-12';
  if ($schema.includes('draft-07') || $schema.includes('draft-06')) return '7';
  if ($schema.includes('draft-04')) return '4';
  return $schema.includes('2019-09') ? '2019-09' : '2020-12';
}

/** Returns the issues of a value; none if it fits. */
export function issuesOf(schema: Schema, value: unknown): Issue[] {
  let errors: OutputUnit[];
  try {
    errors = new Validator(schema, draftOf(schema), false).validate(value).errors;
  } catch {
    // A reference to elsewhere, or a pattern that is none here.
    return [];
  }
  const isTelling = ({ keyword, keywordLocation }: OutputUnit) =>
    !WAYS.has(keyword) && !/\/(anyOf|oneOf|not)\//.test(keywordLocation);
  const telling = errors.filter(isTelling);
  return (telling.length > 0 ? telling : errors.slice(0, 1)).map((error) => issueOf(error, schema));
}

function issueOf({ keyword, keywordLocation, instanceLocation, error }: OutputUnit, schema: Schema): Issue {
  const pointer = decodeURI(instanceLocation.replace(/^#/, ''));
  const missing = keyword === 'required' ? /property "(.*)"\.$/s.exec(error)?.[1] : undefined;
  const limit = limitAt(schema, keywordLocation);
  return {
    pointer: missing === undefined ? pointer : pointerTo(pointer, missing),
    keyword,
    detail: error,
    ...(limit !== undefined && { limit }),
  };
}

/** Returns the text at a place in a schema; references on the way are followed. */
function limitAt(schema: Schema, location: string): string | undefined {
  let place: unknown = schema;
  for (const step of decodeURI(location).replace(/^#\//, '').split('/')) {
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~');
    place = isRecord(place) || Array.isArray(place) ? (place as Record<string, unknown>)[name] : undefined;
    if (name === '$ref' && typeof place === 'string') place = lookUp(schema, place);
  }
  if (typeof place === 'number' || typeof place === 'string') return String(place);
  return Array.isArray(place) ? place.join(', ') : undefined;
}

/** A place that a refusal of the server names. */
export const issueOfServer = ({ pointer, detail }: RefusedPlace): Issue => ({
  pointer,
  keyword: 'server',
  detail,
});

/** Keywords that there are words for. */
const KNOWN = [
  'required',
  'type',
  'enum',
  'format',
  'pattern',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minItems',
  'maxItems',
  'uniqueItems',
  'false',
] as const;

/** An issue in words. */
export function issueWords({ keyword, detail, limit = '' }: Issue, t: TFunction<'cards'>): string {
  if (keyword === 'server') return detail;
  const known = KNOWN.find((one) => one === keyword);
  return known === undefined ? t('issue.other', { detail }) : t(`issue.${known}`, { limit });
}
