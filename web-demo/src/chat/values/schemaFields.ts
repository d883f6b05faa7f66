// Which control shows a value of a JSON Schema, and how text becomes a value again.
//
// Knows nothing of React. Invariants: a control is chosen only if it can show the value exactly, and
// otherwise JSON is; what a control shows, read again untouched, is the value it was given.

import { isNumberReadExactly } from 'fermata-chat';
import { isRecord } from '../record/isRecord';

export type Schema = Record<string, unknown>;

export interface Option {
  value: unknown;
  label: string;
}

export type Control =
  | { kind: 'text'; isLong: boolean; type: 'text' | 'email' | 'url' | 'date' }
  | { kind: 'number'; isInteger: boolean }
  | { kind: 'boolean' }
  | { kind: 'choice'; options: Option[] }
  | { kind: 'choices'; options: Option[] }
  | { kind: 'constant'; value: unknown }
  | { kind: 'object'; properties: Property[]; more: Schema }
  | { kind: 'list'; items: Schema }
  | { kind: 'json' };

export interface Property {
  name: string;
  schema: Schema;
  isRequired: boolean;
}

export interface Field {
  control: Control;
  isNullable: boolean;
  title?: string;
  description?: string;
  default?: unknown;
}

// === reading a schema ===

/** The rules for a value in one place, with references, single alternatives and `null` taken apart. */
interface Plain {
  schema: Schema;
  isNullable: boolean;
}

/** A reference that leads to itself ends nowhere. */
const MAX_HOPS = 16;

function plain(given: Schema, root: Schema): Plain {
  let schema = given;
  let isNullable = false;
  for (let hop = 0; hop < MAX_HOPS; hop++) {
    const { $ref, allOf, anyOf, oneOf, ...rest } = schema;
    const alternatives = anyOf ?? oneOf;
    if (typeof $ref === 'string') {
      const target = lookUp(root, $ref);
      if (target === undefined) return { schema: {}, isNullable };
      schema = {
        ...target,
        ...rest,
        ...(allOf !== undefined && { allOf }),
        ...(alternatives !== undefined && { anyOf: alternatives }),
      };
    } else if (Array.isArray(allOf) && allOf.length === 1 && isRecord(allOf[0])) {
      schema = { ...allOf[0], ...rest, ...(alternatives !== undefined && { anyOf: alternatives }) };
    } else if (Array.isArray(alternatives) && alternatives.every(isRecord)) {
      const others = alternatives.filter((one) => one['type'] !== 'null' && one['const'] !== null);
      isNullable ||= others.length < alternatives.length;
      if (others.length !== 1) return { schema: { ...rest, anyOf: others }, isNullable };
      schema = { ...others[0], ...rest };
    } else break;
  }
  return withoutNull(schema, isNullable);
}

function withoutNull(schema: Schema, isNullable: boolean): Plain {
  const { type, enum: values } = schema;
  const types = Array.isArray(type) ? type.filter((one) => one !== 'null') : [];
  const isTypeNullable = Array.isArray(type) && types.length < type.length;
  const choices = Array.isArray(values) ? values.filter((value) => value !== null) : undefined;
  const isChoiceNullable = choices !== undefined && choices.length < (values as unknown[]).length;
  return {
    schema: {
      ...schema,
      ...(Array.isArray(type) && { type: types.length === 1 ? types[0] : types }),
      ...(choices !== undefined && { enum: choices }),
    },
    isNullable: isNullable || isTypeNullable || isChoiceNullable,
  };
}

/** Returns the schema that a reference inside a schema means. */
export function lookUp(root: Schema, reference: string): Schema | undefined {
  if (!reference.startsWith('#')) return undefined;
  let place: unknown = root;
  for (const step of reference.slice(1).split('/').slice(1)) {
    const name = decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~');
    place = isRecord(place) && Object.hasOwn(place, name) ? place[name] : undefined;
  }
  return isRecord(place) ? place : undefined;
}

// === choosing a control ===

/** Returns the field that shows a value. `undefined` is a value that is not there yet. */
export function fieldOf(given: Schema, value: unknown, root: Schema, name = ''): Field {
  const { schema, isNullable } = plain(given, root);
  const control = controlOf(schema, name, value);
  const fits = value === undefined || (value === null && isNullable) || shows(control, value);
  const { title, description } = schema;
  return {
    control: fits ? control : { kind: 'json' },
    isNullable,
    ...(typeof title === 'string' && { title }),
    ...(typeof description === 'string' && { description }),
    ...('default' in schema && { default: schema['default'] }),
  };
}

function controlOf(schema: Schema, name: string, value: unknown): Control {
  if ('const' in schema) return { kind: 'constant', value: schema['const'] };
  const options = optionsOf(schema);
  if (options !== undefined) return { kind: 'choice', options };
  if (schema['anyOf'] !== undefined || schema['allOf'] !== undefined) return { kind: 'json' };
  const type: unknown = schema['type'] ?? (isRecord(schema['properties']) ? 'object' : undefined);
  switch (type) {
    case 'string':
      return { kind: 'text', ...textLook(schema, name, value) };
    case 'number':
    case 'integer':
      return { kind: 'number', isInteger: schema['type'] === 'integer' };
    case 'boolean':
      return { kind: 'boolean' };
    case 'object':
      return objectOf(schema);
    case 'array':
      return listOf(schema);
    default:
      return { kind: 'json' };
  }
}

function optionsOf({ enum: values, enumNames, anyOf }: Schema): Option[] | undefined {
  if (Array.isArray(values) && values.length > 0) {
    const names = Array.isArray(enumNames) ? (enumNames as unknown[]) : [];
    return (values as unknown[]).map((value, place) => ({ value, label: labelOf(value, names[place]) }));
  }
  if (!Array.isArray(anyOf) || anyOf.length === 0 || !anyOf.every((one) => isRecord(one) && 'const' in one))
    return undefined;
  return (anyOf as Schema[]).map(({ const: value, title }) => ({ value, label: labelOf(value, title) }));
}

const labelOf = (value: unknown, name: unknown): string =>
  typeof name === 'string' ? name : typeof value === 'string' ? value : JSON.stringify(value);

/** Names that usually hold more than a line. */
const LONG_NAMES = /(^|_)(body|content|description|message|notes?|prompt|text|code|query_text|comment)$/i;
const LONG = 80;

function textLook(
  { format, maxLength }: Schema,
  name: string,
  value: unknown,
): { isLong: boolean; type: 'text' | 'email' | 'url' | 'date' } {
  const isLongValue = typeof value === 'string' && (value.length > LONG || value.includes('\n'));
  // A field of one line would hide the end of it.
  if (isLongValue) return { isLong: true, type: 'text' };
  if (format === 'email') return { isLong: false, type: 'email' };
  if (format === 'uri') return { isLong: false, type: 'url' };
  if (format === 'date' && (value === undefined || value === null || isDay(value)))
    return { isLong: false, type: 'date' };
  const isShort = format !== undefined || (typeof maxLength === 'number' && maxLength <= LONG);
  return { isLong: !isShort && LONG_NAMES.test(name), type: 'text' };
}

/** Returns `true` if a text is a day that there is; a field for days shows no other. */
function isDay(value: unknown): value is string {
  if (typeof value !== 'string' || !/^\d{4}-\d\d-\d\d$/.test(value)) return false;
  const day = new Date(`${value}T00:00Z`);
  return !Number.isNaN(day.getTime()) && day.toISOString().startsWith(value);
}

function objectOf({ properties, required, additionalProperties }: Schema): Control {
  if (!isRecord(properties) || Object.keys(properties).length === 0) return { kind: 'json' };
  const names = Array.isArray(required) ? (required as unknown[]) : [];
  return {
    kind: 'object',
    properties: Object.entries(properties).map(([name, schema]) => ({
      name,
      schema: isRecord(schema) ? schema : {},
      isRequired: names.includes(name),
    })),
    more: isRecord(additionalProperties) ? additionalProperties : {},
  };
}

function listOf({ items, prefixItems, uniqueItems }: Schema): Control {
  if (!isRecord(items) || prefixItems !== undefined) return { kind: 'json' };
  const options = optionsOf(items.oneOf !== undefined ? { anyOf: items.oneOf } : items);
  if (options !== undefined && uniqueItems !== false) return { kind: 'choices', options };
  return { kind: 'list', items };
}

/** Returns `true` if a control shows a value exactly. */
function shows(control: Control, value: unknown): boolean {
  switch (control.kind) {
    case 'text':
      // A page's text fields know one line end only, and a field of one line none.
      if (typeof value !== 'string' || value.includes('\r')) return false;
      if (control.type === 'date') return value === '' || isDay(value);
      // Fields for addresses take spaces off at both ends.
      if (control.type !== 'text') return value === value.trim() && !value.includes('\n');
      return control.isLong || !value.includes('\n');
    case 'number':
      return typeof value === 'number' && Object.is(Number(showNumber(value)), value);
    case 'boolean':
      return typeof value === 'boolean';
    case 'choice':
      return placeOf(control.options, value) >= 0;
    case 'choices':
      return Array.isArray(value) && isSelection(control.options, value);
    case 'constant':
      return isSame(control.value, value);
    case 'object':
      return isRecord(value);
    case 'list':
      return Array.isArray(value);
    case 'json':
      return true;
  }
}

function isSelection(options: Option[], value: unknown[]): boolean {
  const places = value.map((one) => placeOf(options, one));
  return places.every((place) => place >= 0) && new Set(places).size === places.length;
}

// === between text and value ===

/** Returns `true` if two JSON values are the same. The order of their fields does not count. */
export function isSame(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (Array.isArray(one))
    return (
      Array.isArray(other) && one.length === other.length && one.every((item, at) => isSame(item, other[at]))
    );
  if (!isRecord(one) || !isRecord(other)) return false;
  const names = Object.keys(one);
  const isSameField = (name: string) => Object.hasOwn(other, name) && isSame(one[name], other[name]);
  return names.length === Object.keys(other).length && names.every(isSameField);
}

/** Which of the options a value is; -1 for none. */
export const placeOf = (options: Option[], value: unknown): number =>
  options.findIndex((option) => isSame(option.value, value));

export const showNumber = (value: number): string => (Object.is(value, -0) ? '-0' : String(value));

/** Returns the text that a field shows. */
export const showText = (value: unknown): string =>
  typeof value === 'number' ? showNumber(value) : typeof value === 'string' ? value : '';

/** The meaning of an emptied field. */
export interface Emptiness {
  isRequired: boolean;
  isNullable: boolean;
  /** The first value of the field. */
  first: unknown;
}

/** Returns the value of a text field: text that is no number stays text, and the schema refuses it. */
export function readText(
  control: Control & { kind: 'text' | 'number' },
  text: string,
  empty: Emptiness,
): unknown {
  if (text === '') return emptied(control, empty);
  if (control.kind === 'text') return text;
  const typed = text.trim();
  const number = Number(typed);
  if (typed === '' || !Number.isFinite(number)) return text;
  // The sign is never lost, not even that of -0.
  return isNumberReadExactly(typed.replace(/^-/, '')) ? number : text;
}

function emptied(
  control: Control & { kind: 'text' | 'number' },
  { isRequired, isNullable, first }: Emptiness,
): unknown {
  // Typing and taking it back is no change.
  if (first === undefined || first === null || first === '') return first;
  if (!isRequired) return undefined;
  if (isNullable) return null;
  return control.kind === 'text' ? '' : undefined;
}

/** An object with a field changed, or left out where the value is `undefined`. */
export function withField(
  object: Record<string, unknown>,
  name: string,
  value: unknown,
): Record<string, unknown> {
  const entries = Object.entries(object);
  const place = entries.findIndex(([other]) => other === name);
  const changed: [string, unknown][] =
    place < 0
      ? [...entries, [name, value]]
      : entries.map((entry, at) => (at === place ? [name, value] : entry));
  // `fromEntries` also takes names that an assignment would not, such as `__proto__`.
  return Object.fromEntries(changed.filter(([, one]) => one !== undefined));
}

/** Returns the first value of a form for a schema: the defaults, and the objects that must be there. */
export function seed(given: Schema, root: Schema = given, depth = 0): unknown {
  const { schema } = plain(given, root);
  if ('default' in schema) return schema['default'];
  if ('const' in schema) return schema['const'];
  const control = controlOf(schema, '', undefined);
  if (control.kind !== 'object' || depth > MAX_HOPS) return undefined;
  const fields = control.properties.map(({ name, schema, isRequired }): [string, unknown] => {
    const isGiven = isRequired || 'default' in plain(schema, root).schema;
    return [name, isGiven ? seed(schema, root, depth + 1) : undefined];
  });
  return Object.fromEntries(fields.filter(([, value]) => value !== undefined));
}
