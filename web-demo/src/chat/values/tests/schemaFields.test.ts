// A form shows a value exactly, or not at all: random schemas, each with random values.

import { describe, expect, it } from 'vitest';
import {
  fieldOf,
  isSame,
  placeOf,
  readText,
  seed,
  showText,
  withField,
  type Control,
  type Schema,
} from '../schemaFields';
import { issuesOf } from '../schemaIssues';

/** Numbers that look random, and are the same in every run. */
function dice(seed: number): (sides: number) => number {
  let state = seed;
  return (sides) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * sides);
  };
}

type Dice = ReturnType<typeof dice>;
const TEXTS = [
  '',
  'a',
  'two words',
  ' spaced ',
  'two\nlines',
  'a\r\nb',
  '12',
  'null',
  '2026-02-28',
  '2026-02-31',
  'a@b.ch',
  'x'.repeat(200),
  '字',
];
const NUMBERS = [0, -0, 1, -7, 0.1, 1e21, 1e-7, 2 ** 53, 123456.789];
const pick = <T>(items: readonly T[], roll: Dice): T => items[roll(items.length)] as T;

function anyValue(roll: Dice, depth = 0): unknown {
  switch (roll(depth > 2 ? 4 : 6)) {
    case 0:
      return pick(TEXTS, roll);
    case 1:
      return pick(NUMBERS, roll);
    case 2:
      return roll(2) === 0;
    case 3:
      return null;
    case 4:
      return Array.from({ length: roll(4) }, () => anyValue(roll, depth + 1));
    default:
      return Object.fromEntries(
        ['name', 'a/b', '__proto__', 'm~n'].slice(roll(4)).map((name) => [name, anyValue(roll, depth + 1)]),
      );
  }
}

function anySchema(roll: Dice, depth = 0): Schema {
  const schemas: (() => Schema)[] = [
    () => ({
      type: 'string',
      ...(roll(3) === 0 && { format: pick(['email', 'uri', 'date', 'date-time'], roll) }),
    }),
    () => ({ type: pick(['number', 'integer'], roll) }),
    () => ({ type: 'boolean' }),
    () => ({ enum: [pick(TEXTS, roll), pick(NUMBERS, roll), null, { a: [1] }] }),
    () => ({ const: pick(TEXTS, roll) }),
    () => ({ type: [pick(['string', 'number', 'boolean'], roll), 'null'] }),
    () => ({ $ref: '#/$defs/text' }),
    () => ({ anyOf: [anySchema(roll, depth + 1), { type: 'null' }] }),
    () => ({}),
    () => ({ type: 'array', items: anySchema(roll, depth + 1), ...(roll(2) === 0 && { uniqueItems: true }) }),
    () => ({
      type: 'object',
      properties: { name: anySchema(roll, depth + 1), 'a/b': anySchema(roll, depth + 1) },
      required: roll(2) === 0 ? ['name'] : [],
    }),
  ];
  return pick(depth > 2 ? schemas.slice(0, 9) : schemas, roll)();
}

/** What a form gives whose every field was touched and put back. */
function throughForm(schema: Schema, value: unknown, root: Schema): unknown {
  const field = fieldOf(schema, value, root);
  const { control } = field;
  if (value === undefined || value === null)
    return control.kind === 'text' || control.kind === 'number'
      ? typed(control, value, field.isNullable)
      : value;
  switch (control.kind) {
    case 'text':
    case 'number':
      return typed(control, value, field.isNullable);
    case 'boolean':
      return value === true;
    case 'choice':
      return control.options[placeOf(control.options, value)]?.value;
    case 'choices':
      return (value as unknown[]).map((one) => control.options[placeOf(control.options, one)]?.value);
    case 'constant':
      return control.value;
    case 'list':
      return (value as unknown[]).map((item) => throughForm(control.items, item, root));
    case 'object': {
      const planned = new Map(control.properties.map(({ name, schema }) => [name, schema]));
      return Object.entries(value).reduce<Record<string, unknown>>(
        (object, [name, one]) =>
          withField(object, name, throughForm(planned.get(name) ?? control.more, one, root)),
        {},
      );
    }
    case 'json':
      return JSON.parse(JSON.stringify(value)) as unknown;
  }
}

/** A text field in which a letter is typed and taken away again. */
function typed(control: Control & { kind: 'text' | 'number' }, first: unknown, isNullable: boolean): unknown {
  return readText(control, showText(first), { isRequired: true, isNullable, first });
}

describe('a form', () => {
  it('gives back every value that it can show', () => {
    let shown = 0;
    for (let round = 0; round < 5_000; round++) {
      const roll = dice(round);
      const schema: Schema = { ...anySchema(roll), $defs: { text: { type: 'string' } } };
      const kindFor = (value: unknown) => fieldOf(schema, value, schema).control.kind;
      // Half of the values are looked for until one can be shown; the others are whatever comes.
      const candidates = Array.from({ length: round % 2 === 0 ? 1 : 30 }, () => anyValue(roll));
      const value = candidates.find((one) => kindFor(one) !== 'json') ?? candidates[0];
      const kind = kindFor(value);
      if (kind !== 'json') shown += 1;
      const back = throughForm(schema, value, schema);
      expect(JSON.stringify(back), JSON.stringify({ schema, kind })).toBe(JSON.stringify(value));
    }
    expect(shown).toBeGreaterThan(1_000);
  });

  it.each([
    ['a text with a carriage return', { type: 'string' }, 'a\r\nb'],
    ['a day that there is not', { type: 'string', format: 'date' }, '2026-02-31'],
    ['an address with spaces around it', { type: 'string', format: 'email' }, ' a@b.ch '],
    ['a text where a number should be', { type: 'number' }, '12'],
    ['a choice that is none', { enum: ['a'] }, 'b'],
    ['a choice made twice', { type: 'array', uniqueItems: true, items: { enum: ['a'] } }, ['a', 'a']],
    ['a list with places of its own', { type: 'array', prefixItems: [{}], items: {} }, [1]],
    ['one of several shapes', { anyOf: [{ type: 'string' }, { type: 'number' }] }, 1],
    ['an object without fields', { type: 'object' }, {}],
  ])('does not show %s other than as it is', (_what, schema, value) => {
    const { control } = fieldOf(schema, value, schema);
    expect(
      control.kind === 'json' ||
        (control.kind === 'text' && control.type === 'text' && !JSON.stringify(value).includes('\\r')),
    ).toBe(true);
  });

  it('keeps text that is no number yet', () => {
    const empty = { isRequired: true, isNullable: false, first: 1 };
    expect(readText({ kind: 'number', isInteger: false }, '1e', empty)).toBe('1e');
    expect(readText({ kind: 'number', isInteger: false }, '1e400', empty)).toBe('1e400');
    expect(readText({ kind: 'number', isInteger: false }, ' 1.50 ', empty)).toBe(1.5);
    expect(readText({ kind: 'number', isInteger: false }, '-0.0', empty)).toBe(-0);
    expect(readText({ kind: 'number', isInteger: false }, '-1e-400', empty)).toBe('-1e-400');
    expect(readText({ kind: 'number', isInteger: true }, '9007199254740993', empty)).toBe('9007199254740993');
  });

  it('takes an emptied field for what an empty one means there', () => {
    const text = { kind: 'text', isLong: false, type: 'text' } as const;
    expect(readText(text, '', { isRequired: true, isNullable: false, first: 'a' })).toBe('');
    expect(readText(text, '', { isRequired: true, isNullable: true, first: 'a' })).toBeNull();
    expect(readText(text, '', { isRequired: false, isNullable: false, first: 'a' })).toBeUndefined();
    expect(readText(text, '', { isRequired: false, isNullable: true, first: null })).toBeNull();
    expect(readText(text, '', { isRequired: false, isNullable: false, first: '' })).toBe('');
  });

  it('begins with what is given by default', () => {
    const schema = {
      type: 'object',
      properties: {
        a: { type: 'string', default: 'x' },
        b: { type: 'string' },
        c: { $ref: '#/$defs/inner' },
      },
      required: ['c'],
      $defs: {
        inner: {
          type: 'object',
          properties: { d: { type: 'number', default: 1 }, again: { $ref: '#/$defs/inner' } },
          required: ['again'],
        },
      },
    };
    const begun = seed(schema);
    expect(begun).toMatchObject({ a: 'x', c: { d: 1 } });
    expect(begun).not.toHaveProperty('b');
  });
});

it('says where a value does not fit', () => {
  const schema = {
    type: 'object',
    properties: { title: { type: 'string', minLength: 2 }, body: {}, 'a/b': { $ref: '#/$defs/n' } },
    required: ['title', 'body'],
    additionalProperties: false,
    $defs: { n: { maximum: 5 } },
  };
  const issues = issuesOf(schema, { title: 'x', 'a/b': 9, more: 1 }).map(({ pointer, keyword, limit }) => [
    pointer,
    keyword,
    limit,
  ]);
  expect(issues).toEqual(
    expect.arrayContaining([
      ['/title', 'minLength', '2'],
      ['/a~1b', 'maximum', '5'],
      ['/body', 'required', 'title, body'],
      ['/more', 'false', undefined],
    ]),
  );
  expect(issuesOf(schema, { title: 'xy', body: 1 })).toEqual([]);
});

it('is silent about a schema that it cannot read', () => {
  expect(issuesOf({ properties: { a: { pattern: '(' } } }, { a: 'x' })).toEqual([]);
});

it('compares values whatever the order of their fields', () => {
  expect(isSame({ a: 1, b: [1, { c: null }] }, { b: [1, { c: null }], a: 1 })).toBe(true);
  expect(isSame({ a: undefined }, {})).toBe(false);
  expect(isSame([1], { 0: 1 })).toBe(false);
});
