// Says an answer once to screen readers: when it is written. The messages themselves are not a live region, because a text that grows
// would be announced with every word.

import { useState } from 'react';
import { textOf, type Message } from './message';

interface Props {
  /** The newest message. */
  message: Message | undefined;
  isGrowing: boolean;
}

export function Announcer({ message, isGrowing }: Props) {
  const [wasGrowing, setWasGrowing] = useState(isGrowing);
  const [words, setWords] = useState('');
  if (wasGrowing !== isGrowing) {
    setWasGrowing(isGrowing);
    setWords(!isGrowing && message?.role === 'assistant' ? textOf(message) : '');
  }
  return (
    <p role="status" className="sr-only">
      {words}
    </p>
  );
}
