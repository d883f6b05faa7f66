// Says that a secret seems to be asked for, and where it would go. Shows nothing if a question asks for none.

import { TriangleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { inOneLine } from '../text/visible';
import type { Schema } from './schemaFields';
import { secretFields, speaksOfSecret } from './secrets';

export interface SecretWarningProps {
  /** The question. */
  text: string;
  /** The form that goes with it, where it has one. */
  schema?: Schema | undefined;
  /** The recipient of the input. */
  children: ReactNode;
}

export function SecretWarning({ text, schema = {}, children }: SecretWarningProps) {
  const { t } = useTranslation('cards');
  const fields = secretFields(schema);
  if (fields.length === 0 && !speaksOfSecret(text)) return null;
  return (
    <p role="note" className="flex gap-2 rounded-lg bg-bad-soft px-3 py-2 text-sm text-bad">
      <TriangleAlert aria-hidden className="mt-0.5 size-4 shrink-0" />
      <span className="wrap-anywhere">
        {fields.length > 0
          ? t('secret.askedFor', { fields: inOneLine(fields.join(', ')) })
          : t('secret.asked')}{' '}
        {children}
      </span>
    </p>
  );
}
