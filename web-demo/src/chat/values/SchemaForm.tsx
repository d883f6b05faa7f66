// A form made from a JSON Schema, for one JSON value.
//
// It holds no value of its own: every change gives the whole new value. A field keeps the control that it
// began with, so that nothing jumps while somebody types; give the form another `key` to let it choose again.

import { Plus, X } from 'lucide-react';
import { useEffect, useState, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { isRecord } from '../record/isRecord';
import { Button } from '../ui/Button';
import { ChoiceControl, ChoicesControl, JsonControl, TextControl } from './SchemaControls';
import { fieldOf, seed, withField, type Control, type Field, type Schema } from './schemaFields';
import { issueWords, pointerTo, type Issue } from './schemaIssues';
import { Readable } from './ToolValue';

export interface SchemaFormProps {
  schema: Schema;
  value: unknown;
  onChange: (value: unknown) => void;
  issues: readonly Issue[];
  /** Hears of fields whose text is no value at all. */
  onBroken: (pointer: string, isBroken: boolean) => void;
  /** Begins the ids of the fields. */
  id: string;
}

/** The form of a value. */
export function SchemaForm({ schema, value, onChange, ...rest }: SchemaFormProps) {
  return (
    <Node {...rest} {...{ schema, value, onChange }} root={schema} pointer="" name="" isRequired depth={0} />
  );
}

interface NodeProps extends Omit<SchemaFormProps, 'schema'> {
  schema: Schema;
  root: Schema;
  pointer: string;
  name: string;
  isRequired: boolean;
  depth: number;
  /** Takes an item or a field nobody planned for away. */
  onRemove?: (() => void) | undefined;
}

/** Returns the id of a field's elements. */
export const idOf = (id: string, pointer: string) => `${id}${pointer.replaceAll(/[^\w/-]/g, '_')}`;

function Node(props: NodeProps): ReactNode {
  const { schema, root, value, name, pointer, depth } = props;
  const [field] = useState(() => fieldOf(schema, value, root, name));
  const { control } = field;
  if (control.kind === 'constant') return <Constant {...props} field={field} value={control.value} />;
  if (control.kind === 'object' && depth === 0) return <Properties {...props} control={control} />;
  if (control.kind === 'object' || control.kind === 'list')
    return <Group {...props} field={field} control={control} />;
  return <Leaf key={pointer} {...props} field={field} control={control} />;
}

type Inner = Control & { kind: 'object' | 'list' };
type Outer = Exclude<Control, Inner | { kind: 'constant' }>;

// === labels and messages ===

function Label({
  field,
  name,
  isRequired,
  id,
  as,
}: {
  field: Field;
  name: string;
  isRequired: boolean;
  id: string;
  as: 'label' | 'legend' | 'p';
}) {
  const { t } = useTranslation('cards');
  const words = (
    <>
      {field.title ?? name}
      {!isRequired && field.default === undefined && (
        <span className="font-normal text-muted"> {t('form.optional')}</span>
      )}
    </>
  );
  const look = { dir: 'auto', className: 'block text-sm font-medium wrap-anywhere' };
  if (as === 'label')
    return (
      <label {...look} id={`${id}-label`} htmlFor={id}>
        {words}
      </label>
    );
  return as === 'legend' ? (
    <legend {...look}>{words}</legend>
  ) : (
    <p {...look} id={`${id}-label`}>
      {words}
    </p>
  );
}

const issuesAt = (issues: readonly Issue[], pointer: string) =>
  issues.filter((issue) => issue.pointer === pointer);

function Issues({ issues, pointer, id }: { issues: readonly Issue[]; pointer: string; id: string }) {
  const { t } = useTranslation('cards');
  const here = issuesAt(issues, pointer);
  if (here.length === 0) return null;
  return (
    <p id={`${id}-issue`} className="text-sm text-bad wrap-anywhere">
      {here.map((issue) => issueWords(issue, t)).join(' ')}
    </p>
  );
}

function RemoveButton({ label, onRemove }: { label: string; onRemove: (() => void) | undefined }) {
  if (onRemove === undefined) return null;
  return (
    <Button tone="quiet" aria-label={label} title={label} onClick={onRemove} className="w-10 shrink-0 px-0">
      <X aria-hidden className="size-4" />
    </Button>
  );
}

// === one value ===

function Leaf({
  field,
  control,
  value,
  onChange,
  isRequired,
  name,
  pointer,
  issues,
  onBroken,
  id: form,
  onRemove,
}: NodeProps & { field: Field; control: Outer }) {
  const { t } = useTranslation('cards');
  const [isBroken, setBroken] = useState(false);
  const id = idOf(form, pointer);
  const isInvalid = isBroken || issuesAt(issues, pointer).length > 0;
  const describedBy = [field.description !== undefined && `${id}-description`, isInvalid && `${id}-issue`]
    .filter(Boolean)
    .join(' ');
  const common = {
    field,
    value,
    onChange,
    isRequired,
    id,
    isInvalid,
    describedBy: describedBy === '' ? undefined : describedBy,
  };
  const noteBroken = (isBroken: boolean) => {
    setBroken(isBroken);
    onBroken(pointer, isBroken);
  };
  // What was typed into a field that is taken away troubles nobody any more.
  useEffect(
    () => () => {
      onBroken(pointer, false);
    },
    [onBroken, pointer],
  );
  return (
    <div className="space-y-1">
      {name !== '' && (
        <Label {...{ field, name, isRequired, id }} as={control.kind === 'choices' ? 'p' : 'label'} />
      )}
      {field.description !== undefined && (
        <p id={`${id}-description`} dir="auto" className="text-xs leading-5 text-muted">
          {field.description}
        </p>
      )}
      <div className="flex items-start gap-1">
        <div className="min-w-0 flex-1">{controlFor(control, common, noteBroken)}</div>
        <RemoveButton label={t('form.remove', { name: name || field.title })} onRemove={onRemove} />
      </div>
      {isBroken ? (
        <p id={`${id}-issue`} className="text-sm text-bad">
          {t('form.noJson')}
        </p>
      ) : (
        <Issues {...{ issues, pointer, id }} />
      )}
    </div>
  );
}

type Common = Omit<Parameters<typeof ChoicesControl>[0], 'control'>;

function controlFor(control: Outer, common: Common, onBroken: (isBroken: boolean) => void): ReactNode {
  switch (control.kind) {
    case 'text':
      return <TextControl control={control} {...common} />;
    case 'number':
      return <TextControl control={control} {...common} />;
    case 'boolean':
      return <ChoiceControl control={control} {...common} />;
    case 'choice':
      return <ChoiceControl control={control} {...common} />;
    case 'choices':
      return <ChoicesControl control={control} {...common} />;
    case 'json':
      return <JsonControl control={control} {...common} onBroken={onBroken} />;
  }
}

/** A value that can only be one; it may still be left out, or be something else so far. */
function Constant({
  field,
  value,
  name,
  isRequired,
  pointer,
  issues,
  id: form,
}: NodeProps & { field: Field }) {
  const id = idOf(form, pointer);
  return (
    <div className="space-y-1">
      <Label {...{ field, name, isRequired, id }} as="p" />
      <div className="text-sm">
        <Readable value={value} />
      </div>
      <Issues {...{ issues, pointer, id }} />
    </div>
  );
}

// === values in values ===

function Group(props: NodeProps & { field: Field; control: Inner }) {
  const { t } = useTranslation('cards');
  const {
    field,
    control,
    value,
    onChange,
    schema,
    root,
    isRequired,
    name,
    pointer,
    issues,
    id: form,
    onRemove,
  } = props;
  const id = idOf(form, pointer);
  const isThere = value !== undefined && value !== null;
  const label = field.title ?? name;
  // A list that must be there, or a field nobody planned for, is emptied or taken away otherwise.
  const leaveOut =
    onRemove ??
    (!isThere || (isRequired && !field.isNullable)
      ? undefined
      : () => {
          onChange(isRequired ? null : undefined);
        });
  const fillIn = () => {
    onChange(seed(schema, root) ?? (control.kind === 'list' ? [] : {}));
  };
  return (
    <fieldset id={id} tabIndex={-1} className="min-w-0 space-y-2" aria-describedby={`${id}-issue`}>
      <div className="flex items-center justify-between gap-2">
        <Label {...{ field, name, isRequired, id }} as="legend" />
        <RemoveButton label={t('form.remove', { name: label })} onRemove={leaveOut} />
      </div>
      {field.description !== undefined && (
        <p dir="auto" className="text-xs leading-5 text-muted">
          {field.description}
        </p>
      )}
      <Issues {...{ issues, pointer, id }} />
      {!isThere && (
        <Button onClick={fillIn}>
          <Plus aria-hidden className="size-4" />
          {t('form.fillIn', { name: label })}
        </Button>
      )}
      {isThere && (
        <div className="border-l-2 border-line pl-3">
          {control.kind === 'list' ? (
            <Items {...props} control={control} />
          ) : (
            <Properties {...props} control={control} />
          )}
        </div>
      )}
    </fieldset>
  );
}

function Properties(props: NodeProps & { control: Control & { kind: 'object' } }) {
  const { control, value, onChange, pointer, depth } = props;
  const object = isRecord(value) ? value : {};
  const planned = new Set(control.properties.map(({ name }) => name));
  const others = Object.keys(object).filter((name) => !planned.has(name));
  const common = { ...props, depth: depth + 1, onRemove: undefined };
  const set = (name: string) => (next: unknown) => {
    onChange(withField(object, name, next));
  };
  const get = (name: string) => (Object.hasOwn(object, name) ? object[name] : undefined);
  return (
    <div className="space-y-4">
      {control.properties.map(({ name, schema, isRequired }) => (
        <Node
          key={name}
          {...common}
          {...{ name, schema, isRequired }}
          pointer={pointerTo(pointer, name)}
          value={get(name)}
          onChange={set(name)}
        />
      ))}
      {others.map((name) => (
        <Node
          key={name}
          {...common}
          name={name}
          schema={control.more}
          isRequired
          pointer={pointerTo(pointer, name)}
          value={get(name)}
          onChange={set(name)}
          onRemove={() => {
            set(name)(undefined);
          }}
        />
      ))}
    </div>
  );
}

function Items(props: NodeProps & { control: Control & { kind: 'list' } }) {
  const { t } = useTranslation('cards');
  const { control, value, onChange, root, pointer, depth } = props;
  const items: unknown[] = Array.isArray(value) ? value : [];
  // Fields keep what they began with; after a removal the rest of them start over.
  const [removals, setRemovals] = useState(0);
  const remove = (place: number) => {
    setRemovals(removals + 1);
    onChange(items.filter((_, at) => at !== place));
  };
  const add = () => {
    onChange([...items, seed(control.items, root) ?? blank(control.items, root)]);
  };
  return (
    <div className="space-y-3">
      {items.map((item, at) => (
        <Node
          key={`${removals}-${at}`}
          {...props}
          depth={depth + 1}
          schema={control.items}
          name={t('form.item', { n: at + 1 })}
          isRequired
          pointer={pointerTo(pointer, at)}
          value={item}
          onChange={(next) => {
            onChange(items.map((other, place) => (place === at ? (next ?? null) : other)));
          }}
          onRemove={() => {
            remove(at);
          }}
        />
      ))}
      <Button onClick={add}>
        <Plus aria-hidden className="size-4" />
        {t('form.add')}
      </Button>
    </div>
  );
}

/** A new item of a list: JSON has no item that is not there. */
function blank(schema: Schema, root: Schema): unknown {
  const { control } = fieldOf(schema, undefined, root);
  switch (control.kind) {
    case 'text':
      return '';
    case 'boolean':
      return false;
    case 'choice':
      return control.options[0]?.value ?? null;
    case 'choices':
    case 'list':
      return [];
    case 'object':
      return {};
    case 'number':
      return 0;
    case 'constant':
      return control.value;
    case 'json':
      return null;
  }
}
