// The number of approvals of all chats and owners that wait for the person. The link to the inbox shows it.

import { isWaitingFor } from 'fermata-chat';
import { Cell } from '../../state/cell';
import { whoAmI } from './me';
import { server } from './server';

export interface WaitingForMe {
  count: number;
  /** `true` if there are more than were counted. */
  isMore: boolean;
  /** `true` if the server knows who the person is, so that others may ask them. */
  hasUsers: boolean;
}

/** `undefined` until the first count. It stays so if the server is of a version without an inbox. */
export const waitingForMe = new Cell<WaitingForMe | undefined>(undefined);

/** The highest number that is counted. */
const MOST = 99;

export async function countWaiting(): Promise<void> {
  try {
    const me = await whoAmI();
    if (me === undefined) return;
    const { approvals, next } = await server.approvals.list({ mine: true, limit: MOST });
    waitingForMe.set({
      count: approvals.filter((approval) => isWaitingFor(me.user, approval)).length,
      isMore: next !== undefined,
      hasUsers: me.user !== 'anyone',
    });
  } catch {
    // The number stays until the next count.
  }
}
