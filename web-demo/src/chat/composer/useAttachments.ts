// The files of the message that is being written.

import { useState } from 'react';
import type { FilePart } from '../record/message';
import { filePart, refusalOf, type Refusal } from './attachments';

export interface Refused {
  name: string;
  refusal: Refusal;
}

export function useAttachments() {
  const [files, setFiles] = useState<FilePart[]>([]);
  const [refusals, setRefusals] = useState<Refused[]>([]);

  const add = (list: ArrayLike<File>) => {
    const refused: Refused[] = [];
    const taken: File[] = [];
    for (const file of Array.from(list)) {
      const refusal = refusalOf(file);
      if (refusal === undefined) taken.push(file);
      else refused.push({ name: file.name, refusal });
    }
    setRefusals(refused);
    void Promise.allSettled(taken.map(filePart)).then((read) => {
      const parts = read.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
      setFiles((before) => [...before, ...parts]);
    });
  };
  /** Attaches files again that were sent and not taken. */
  const restore = (parts: readonly FilePart[]) => {
    setFiles((before) => [...parts, ...before]);
  };
  const remove = (file: FilePart) => {
    setFiles((before) => before.filter((other) => other !== file));
  };
  const clear = () => {
    setFiles([]);
    setRefusals([]);
  };
  return { files, refusals, add, restore, remove, clear };
}
