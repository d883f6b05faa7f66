// An input that somebody else has changed while a person was asked about it.

import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { isReadExactly } from 'fermata-chat';
import { Button } from '../ui/Button';
import { toJson } from '../values/cut';
import { Difference } from './Difference';

export interface Change {
  before: string;
  after: string;
  /** The person has seen the new input. */
  onSeen: () => void;
}

/** Follows the input of a call that a person may decide about; `undefined` while it is the input that the person has seen. */
export function useChange(inputText: string | undefined, mayDecide: boolean): Change | undefined {
  const [seen, setSeen] = useState(inputText);
  // A person who cannot decide has nothing to confirm.
  if (seen !== inputText && inputText !== undefined && (seen === undefined || !mayDecide)) setSeen(inputText);
  if (seen === undefined || inputText === undefined || seen === inputText || !mayDecide) return undefined;
  return {
    before: seen,
    after: inputText,
    onSeen: () => {
      setSeen(inputText);
    },
  };
}

/** Shows the difference, and a button to continue. The answers appear only after the button, so nobody gives one by mistake. */
export function ChangedInput({ before, after, onSeen }: Change) {
  const { t } = useTranslation('cards');
  return (
    <div role="alert" className="space-y-2">
      <p className="text-sm text-wait">{t('approval.changed')}</p>
      <Difference before={inLines(before)} after={inLines(after)} />
      <Button onClick={onSeen}>{t('approval.goOn')}</Button>
    </div>
  );
}

/** Formats the JSON, unless JavaScript would change a number. */
const inLines = (text: string) => (isReadExactly(text) ? toJson(JSON.parse(text)) : text);
