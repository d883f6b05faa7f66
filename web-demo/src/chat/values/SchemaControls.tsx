// The controls of a form that hold one value each: text, number, yes or no, a choice, several choices, JSON.

import { useState, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { FIELD } from '../ui/field';
import { toJson } from './cut';
import { isSame, placeOf, readText, showText, type Control, type Field, type Option } from './schemaFields';

export interface ControlProps<KIND extends Control['kind']> {
  control: Control & { kind: KIND };
  field: Field;
  value: unknown;
  onChange: (value: unknown) => void;
  isRequired: boolean;
  /** The id that the label and the messages of the control refer to. */
  id: string;
  describedBy: string | undefined;
  isInvalid: boolean;
}

/**
 * The approximate rows of a text: all of it must be seen before it is approved, even if fields do not
 * grow by themselves.
 */
export const rowsOf = (text: string, least: number): number =>
  Math.max(
    least,
    text.split('\n').reduce((rows, line) => rows + 1 + Math.floor(line.length / 60), 0),
  );

const attributes = ({ id, describedBy, isInvalid, isRequired }: Omit<ControlProps<'text'>, 'control'>) => ({
  id,
  'aria-describedby': describedBy,
  'aria-invalid': isInvalid || undefined,
  'aria-required': isRequired || undefined,
});

/** Text and numbers. */
export function TextControl(props: ControlProps<'text'> | ControlProps<'number'>) {
  const { t } = useTranslation('cards');
  const { control, field, value, onChange, isRequired } = props;
  const [first] = useState(value);
  // `1.` and `1e` are on their way to being numbers, so the text itself is kept while somebody types.
  const [text, setText] = useState(showText(value));
  const type = (next: string) => {
    setText(next);
    onChange(readText(control, next, { isRequired, isNullable: field.isNullable, first }));
  };
  const isGiven = field.default !== undefined && field.default !== null;
  const common = {
    ...attributes(props),
    value: text,
    onChange: (event: { target: { value: string } }) => {
      type(event.target.value);
    },
    ...(isGiven && {
      placeholder: t('form.default', {
        value: typeof field.default === 'string' ? field.default : toJson(field.default),
      }),
    }),
  };
  if (control.kind === 'number')
    return (
      <input
        {...common}
        dir="auto"
        inputMode={control.isInteger ? 'numeric' : 'decimal'}
        autoComplete="off"
        className={FIELD}
      />
    );
  if (control.isLong)
    return (
      <textarea {...common} dir="auto" rows={rowsOf(text, 3)} className={`${FIELD} field-sizing-content`} />
    );
  return <input {...common} dir="auto" type={control.type} className={FIELD} />;
}

/** Yes or no, or one of several. */
export function ChoiceControl(props: ControlProps<'choice'> | ControlProps<'boolean'>) {
  const { t } = useTranslation('cards');
  const { control, field, value, onChange, isRequired } = props;
  const options: Option[] =
    control.kind === 'choice'
      ? control.options
      : [
          { value: true, label: t('value.yes') },
          { value: false, label: t('value.no') },
        ];
  // What has no place among the options: nothing given yet, and `null`.
  const place =
    value === undefined
      ? 'absent'
      : value === null && placeOf(options, null) < 0
        ? 'null'
        : String(placeOf(options, value));
  const [couldBeAbsent] = useState(value === undefined || !isRequired);
  const choose = (next: string) => {
    onChange(next === 'absent' ? undefined : next === 'null' ? null : options[Number(next)]?.value);
  };
  return (
    <select
      {...attributes(props)}
      dir="auto"
      value={place}
      onChange={(event) => {
        choose(event.target.value);
      }}
      className={FIELD}
    >
      {couldBeAbsent && <option value="absent">{t(isRequired ? 'form.choose' : 'form.absent')}</option>}
      {options.map(({ label }, at) => (
        <option key={at} value={at} dir="auto">
          {label}
        </option>
      ))}
      {field.isNullable && placeOf(options, null) < 0 && <option value="null">{t('value.none')}</option>}
    </select>
  );
}

/** Several of several. */
export function ChoicesControl(props: ControlProps<'choices'>) {
  const { control, value, onChange, id, describedBy } = props;
  const chosen: unknown[] = Array.isArray(value) ? value : [];
  const toggle = (option: Option, isOn: boolean) => {
    onChange(isOn ? [...chosen, option.value] : chosen.filter((one) => !isSame(one, option.value)));
  };
  return (
    <div id={id} role="group" aria-labelledby={`${id}-label`} aria-describedby={describedBy} tabIndex={-1}>
      {control.options.map((option, at) => (
        <label key={at} dir="auto" className="flex min-h-10 items-center gap-2.5 text-sm">
          <input
            type="checkbox"
            className="size-4.5 accent-accent"
            checked={chosen.some((one) => isSame(one, option.value))}
            onChange={(event) => {
              toggle(option, event.target.checked);
            }}
          />
          {option.label}
        </label>
      ))}
    </div>
  );
}

/** A value that no other control can show. */
export function JsonControl(
  props: ControlProps<'json'> & { onBroken: (isBroken: boolean) => void },
): ReactNode {
  const { value, onChange, onBroken } = props;
  const [text, setText] = useState(value === undefined ? '' : toJson(value));
  const type = (next: string) => {
    setText(next);
    if (next.trim() === '') {
      onBroken(false);
      onChange(undefined);
      return;
    }
    const read = readJson(next);
    onBroken(read === undefined);
    if (read !== undefined) onChange(read.value);
  };
  return (
    <textarea
      {...attributes(props)}
      dir="ltr"
      value={text}
      onChange={(event) => {
        type(event.target.value);
      }}
      spellCheck={false}
      rows={rowsOf(text, 2)}
      className={`${FIELD} field-sizing-content font-mono`}
    />
  );
}

/** Returns the value of a JSON text; `undefined` if it is none. */
export function readJson(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}
