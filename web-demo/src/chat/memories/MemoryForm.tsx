// The fields of a memory, new or known.

import { useEffect, useId, useRef, useState, type KeyboardEvent } from 'react';
import { useTranslation } from 'react-i18next';
import type { Memory, MemoryKind } from 'fermata-chat';
import { AnswerError } from '../ui/AnswerError';
import { Button } from '../ui/Button';
import { FIELD } from '../ui/field';
import { isLeave } from '../ui/keys';
import { useAction } from '../ui/useAction';

export const KINDS: readonly MemoryKind[] = ['preference', 'fact', 'entity', 'instruction'];

export interface Fields {
  text: string;
  kind: MemoryKind;
  /** Empty if the memory has none. */
  slot: string;
}

interface Props {
  /** The memory that is edited; `undefined` for a new one. */
  memory?: Memory;
  onSave: (fields: Fields) => Promise<unknown>;
  /** Called when it is saved or given up. */
  onDone: () => void;
}

export function MemoryForm({ memory, onSave, onDone }: Props) {
  const { t } = useTranslation('memory');
  const [text, setText] = useState(memory?.text ?? '');
  const [kind, setKind] = useState<MemoryKind>(memory?.kind ?? 'fact');
  const [slot, setSlot] = useState(memory?.slot ?? '');
  const { act, isBusy, error } = useAction();
  const first = useRef<HTMLTextAreaElement>(null);
  const hint = useId();
  useEffect(() => {
    first.current?.focus();
  }, []);
  const save = async () => {
    const fields = { text: text.trim(), kind, slot: slot.trim() };
    if (fields.text !== '' && (await act(() => onSave(fields)))) onDone();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!isLeave(event)) return;
    // It closes the form, and not the dialog around it.
    event.preventDefault();
    onDone();
  };
  return (
    <form
      aria-label={t(memory === undefined ? 'form.add' : 'form.edit')}
      className="space-y-3 rounded-card border border-field bg-raised p-3"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <label className="block text-sm">
        {t('form.text')}
        <textarea
          dir="auto"
          ref={first}
          rows={2}
          value={text}
          onChange={(event) => {
            setText(event.target.value);
          }}
          onKeyDown={onKeyDown}
          className={`${FIELD} mt-1`}
        />
      </label>
      <div className="grid gap-3 sm:grid-cols-2">
        <label className="block text-sm">
          {t('form.kind')}
          <select
            value={kind}
            onChange={(event) => {
              setKind(event.target.value as MemoryKind);
            }}
            className={`${FIELD} mt-1`}
          >
            {KINDS.map((one) => (
              <option key={one} value={one}>
                {t(`kind.${one}`)}
              </option>
            ))}
          </select>
        </label>
        <label className="block text-sm">
          {t('form.slot')}
          <input
            dir="auto"
            value={slot}
            aria-describedby={hint}
            autoComplete="off"
            onChange={(event) => {
              setSlot(event.target.value);
            }}
            onKeyDown={onKeyDown}
            className={`${FIELD} mt-1`}
          />
        </label>
      </div>
      <p id={hint} className="text-xs text-muted">
        {t('form.slotHint')}
      </p>
      <AnswerError error={error} />
      <div className="flex justify-end gap-2">
        <Button onClick={onDone}>{t('form.cancel')}</Button>
        <Button type="submit" tone="primary" isBusy={isBusy} disabled={text.trim() === ''}>
          {t('form.save')}
        </Button>
      </div>
    </form>
  );
}
