// The person: the user of the page's requests.

import { useEffect, useState } from 'react';
import type { Me } from 'fermata-chat';
import { useCell } from '../../state/cell';
import { server } from './server';
import { asking, authorization } from './token';

/** The newest request, and the token that it was made with. */
let newest: { token: string | undefined; me: Promise<Me | undefined> } | undefined;

/** Returns the person; `undefined` if the server is of a version without approvals of several people. Each token needs one request. */
export function whoAmI(): Promise<Me | undefined> {
  const token = authorization()['authorization'];
  if (newest === undefined || newest.token !== token) {
    const request = { token, me: server.me() };
    newest = request;
    request.me.catch(() => {
      // The next caller makes another request.
      if (newest === request) newest = undefined;
    });
  }
  return newest.me;
}

/**
 * The name of the person; `undefined` until it is known, and if the server does not say.
 *
 * @param status a value that changes with the connection: a request that has failed is made again then
 */
export function useMe(status: string): string | undefined {
  const isAsking = useCell(asking);
  const [me, setMe] = useState<string>();
  useEffect(() => {
    let isLeft = false;
    // Without the name, the page says names where it could say "you".
    whoAmI().then(
      (known) => {
        if (!isLeft) setMe(known?.user);
      },
      () => undefined,
    );
    return () => {
      isLeft = true;
    };
  }, [status, isAsking]);
  return me;
}
