// A value as JSON that can be edited.

import { useTranslation } from 'react-i18next';
import { FIELD } from '../ui/field';
import { rowsOf } from './SchemaControls';
import { issueWords, type Issue } from './schemaIssues';

export interface RawJsonProps {
  id: string;
  text: string;
  onChange: (text: string) => void;
  /** `true` if the text is no JSON. */
  isBroken: boolean;
  issues: readonly Issue[];
}

/** The JSON view of a value. */
export function RawJson({ id, text, onChange, isBroken, issues }: RawJsonProps) {
  const { t } = useTranslation('cards');
  const hasIssues = isBroken || issues.length > 0;
  return (
    <div className="space-y-1">
      <label htmlFor={id} className="sr-only">
        {t('form.json')}
      </label>
      <textarea
        dir="ltr"
        id={id}
        value={text}
        onChange={(event) => {
          onChange(event.target.value);
        }}
        spellCheck={false}
        rows={rowsOf(text, 6)}
        aria-invalid={hasIssues || undefined}
        aria-describedby={hasIssues ? `${id}-issues` : undefined}
        className={`${FIELD} field-sizing-content font-mono`}
      />
      {hasIssues && (
        <div id={`${id}-issues`} className="text-sm text-bad wrap-anywhere">
          {isBroken && <p>{t('form.noJson')}</p>}
          {issues.map((issue, at) => (
            <p key={at}>
              {issue.pointer !== '' && <code className="font-mono">{issue.pointer} </code>}
              {issueWords(issue, t)}
            </p>
          ))}
        </div>
      )}
    </div>
  );
}
