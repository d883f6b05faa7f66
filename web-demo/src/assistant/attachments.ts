// Files that a person adds to a message, taken as the plain page takes them.

import type { AttachmentAdapter } from '@assistant-ui/react';
import { filePart, mediaTypeOf, refusalOf } from '../chat/composer/attachments';

export const attachments: AttachmentAdapter = {
  accept: '*',
  add: ({ file }) =>
    Promise.resolve({
      id: `${file.name} ${file.size} ${file.lastModified}`,
      type: file.type.startsWith('image/') ? 'image' : 'document',
      name: file.name,
      contentType: mediaTypeOf(file) ?? file.type,
      file,
      // A file that the server would not take stays where the person sees why, and is not sent.
      status:
        refusalOf(file) === undefined
          ? { type: 'requires-action', reason: 'composer-send' }
          : { type: 'incomplete', reason: 'error' },
    }),
  send: async (attachment) => {
    const { url, mediaType, filename = attachment.name } = await filePart(attachment.file);
    return {
      ...attachment,
      status: { type: 'complete' },
      content: [{ type: 'file', data: url, mimeType: mediaType, filename }],
    };
  },
  remove: () => Promise.resolve(),
};
