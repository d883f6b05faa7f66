// The switch for push notifications on this device. It is absent if the server sends none or the browser cannot show them.

import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { InboxStatus } from 'fermata-chat';
import { server } from '../chat/server/server';
import { useErrorWords } from '../chat/ui/errorWords';
import { useAction } from '../chat/ui/useAction';
import { canNotify, PushError, resume, turnOff, turnOn } from './push';

interface State {
  /** The key of the server. */
  key: string;
  isOn: boolean;
  /** The reason why notifications of an earlier visit are off now. */
  error?: unknown;
}

export function PushSwitch({ status }: { status: InboxStatus }) {
  const { t } = useTranslation('inbox');
  const errorWords = useErrorWords();
  const [state, setState] = useState<State>();
  const { act, isBusy, error = state?.error } = useAction();
  const isSought = state === undefined && status === 'live' && canNotify();
  useEffect(() => {
    if (!isSought) return;
    let isLeft = false;
    void begin().then((state) => {
      if (!isLeft) setState(state);
    });
    return () => {
      isLeft = true;
    };
  }, [isSought]);
  if (state === undefined) return null;
  const { key, isOn } = state;
  const toggle = () =>
    act(async () => {
      await (isOn ? turnOff(server.push) : turnOn(server.push, key));
      setState({ key, isOn: !isOn });
    });
  return (
    <>
      <label className="flex min-h-10 cursor-pointer items-center gap-3 text-sm pointer-coarse:min-h-11">
        {t('push.label')}
        <input
          type="checkbox"
          role="switch"
          checked={isOn}
          aria-busy={isBusy}
          aria-disabled={isBusy}
          className="switch shrink-0 aria-busy:opacity-50"
          onChange={() => void toggle()}
        />
      </label>
      {isBusy && Notification.permission === 'default' && (
        <p role="status" className="basis-full text-sm text-muted">
          {t('push.busy')}
        </p>
      )}
      {!isBusy && error !== undefined && (
        <p role="alert" className="basis-full text-sm text-bad wrap-anywhere">
          {error instanceof PushError ? t(`push.${error.code}`) : errorWords(error)}
        </p>
      )}
    </>
  );
}

/** Reads the key, and resumes the notifications of an earlier visit. Without a key there is no switch. */
async function begin(): Promise<State | undefined> {
  const key = await server.push.key().catch(() => undefined);
  if (key === undefined) return undefined;
  try {
    return { key, isOn: await resume(server.push, key) };
  } catch (error) {
    return { key, isOn: false, error };
  }
}
