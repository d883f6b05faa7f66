// Asks for the token, where the server wants one.

import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useCell } from '../../state/cell';
import { asking, giveToken } from '../server/token';
import { Dialog } from '../ui/Dialog';
import { FIELD } from '../ui/field';

export function TokenDialog() {
  const isAsking = useCell(asking);
  return isAsking === 'none' ? null : <Question wasRefused={isAsking === 'refused'} />;
}

function Question({ wasRefused }: { wasRefused: boolean }) {
  const { t } = useTranslation();
  const [token, setToken] = useState('');
  const giveUp = () => {
    giveToken(undefined);
  };
  return (
    <Dialog title={t('token.title')} onClose={giveUp}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (token.trim() !== '') giveToken(token.trim());
        }}
      >
        <p className="text-muted">{t('token.text')}</p>
        {wasRefused && (
          <p role="alert" className="mt-3 text-bad">
            {t('token.refused')}
          </p>
        )}
        <label className="mt-4 block text-sm">
          {t('token.label')}
          <input
            type="password"
            autoComplete="off"
            value={token}
            onChange={(event) => {
              setToken(event.target.value);
            }}
            className={`${FIELD} mt-1`}
          />
        </label>
        <div className="mt-5 flex justify-end gap-2">
          <button type="button" className="button" onClick={giveUp}>
            {t('token.later')}
          </button>
          <button type="submit" className="button button-accent" disabled={token.trim() === ''}>
            {t('token.give')}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
