import { expect, test } from 'vitest';
import type { CallStatus } from 'fermata-chat';
import { pageRuns } from '../../../tools';
import { call, messageOf, TOOLS } from '../../tests/page';
import { goingOn } from '../going';

test('a resource is used by this chat if the server names the call that uses it', () => {
  const messages = [messageOf(call('a', 'search_notes', 'input-available'))];
  const going = (more: Partial<CallStatus>) =>
    goingOn({
      messages,
      isBusy: true,
      run: undefined,
      status: () => ({ state: 'scheduled', waitsFor: 'resource', resource: 'notes', ...more }),
      surroundings: { tools: TOOLS, pageRuns },
    });
  const waits = { what: 'waits-for-resource', resource: 'notes' };
  expect(going({ heldBy: 'b' })).toEqual({ ...waits, isOfThisChat: true });
  expect(going({})).toEqual({ ...waits, isOfThisChat: false });
});
