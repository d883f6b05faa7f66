// What "try again" means, by what the page has got so far.

import type { FermataChat } from 'fermata-chat';
import { saysNothing, type Message } from '../record/message';

interface Again extends Pick<FermataChat, 'refresh'> {
  sendMessage(): Promise<void>;
  regenerate(): Promise<void>;
}

/**
 * A message that never arrived, or that nothing answered, is sent again as it is; one whose answer never had
 * a word is generated again; anything else is loaded again.
 */
export function tryAgain(chat: Again, last: Message | undefined) {
  if (last?.role === 'user') void chat.sendMessage();
  else if (last !== undefined && saysNothing(last)) void chat.regenerate();
  else void chat.refresh();
}
