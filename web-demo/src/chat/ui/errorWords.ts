// An error in words for a person, in the page's language. The words of a browser are neither.

import { useCallback } from 'react';
import { useTranslation } from 'react-i18next';
import { FermataError } from 'fermata-chat';

/** The codes that have words of their own. */
const KNOWN = [
  'already_answered',
  'changed',
  'not_yours_to_decide',
  'gone',
  'tool_changed',
  'deleted',
  'decision_is_stale',
  'foreign_reply',
  'too_large',
] as const;

export function useErrorWords(): (error: unknown) => string {
  const { t } = useTranslation('cards');
  return useCallback(
    (error) => {
      if (error instanceof FermataError) {
        const code = KNOWN.find((known) => known === error.code);
        return code === undefined ? error.message : t(`errors.${code}`);
      }
      // What `fetch` throws if nobody answers.
      if (error instanceof TypeError) return t('errors.network');
      return error instanceof Error ? error.message : String(error);
    },
    [t],
  );
}
