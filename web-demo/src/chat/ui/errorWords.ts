// An error in words for a person, in the page's language. The words of a browser are neither.

import { useCallback } from 'react';
import { useTranslation } from 'react-i18next';
import { FermataError } from 'fermata-chat';

export function useErrorWords(): (error: unknown) => string {
  const { t } = useTranslation('cards');
  return useCallback(
    (error) => {
      if (error instanceof FermataError) {
        if (error.code === 'already_answered') return t('errors.already_answered');
        if (error.code === 'gone') return t('errors.gone');
        if (error.code === 'tool_changed') return t('errors.tool_changed');
        return error.message;
      }
      // What `fetch` throws if nobody answers.
      if (error instanceof TypeError) return t('errors.network');
      return error instanceof Error ? error.message : String(error);
    },
    [t],
  );
}
