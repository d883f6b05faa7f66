// assistant-ui's field for a message, which grows like the plain page's and knows input methods as well as that one does.

import { ComposerPrimitive } from '@assistant-ui/react';
import type { ComponentProps } from 'react';
import { GrowingTextarea } from '../chat/ui/GrowingTextarea';
import { isComposing } from '../chat/ui/keys';

export const Input = (props: Omit<ComponentProps<'textarea'>, 'ref' | 'onKeyDown'>) => (
  <ComposerPrimitive.Input
    asChild
    onKeyDown={(event) => {
      // assistant-ui sends on every Enter whose default was not prevented, and does not know the one that ends a word in Safari.
      if (event.key === 'Enter' && isComposing(event)) event.preventDefault();
    }}
  >
    <GrowingTextarea {...props} />
  </ComposerPrimitive.Input>
);
