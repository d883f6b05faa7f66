// assistant-ui's field for a message, which grows like the plain page's and knows input methods as well as that one does.

import { ComposerPrimitive } from '@assistant-ui/react';
import type { ComponentProps } from 'react';
import { GrowingTextarea } from '../chat/ui/GrowingTextarea';
import { isComposing, isEditLast } from '../chat/ui/keys';

interface Props extends Omit<ComponentProps<'textarea'>, 'ref' | 'onKeyDown'> {
  /** Has the person write their last message again. The field of a new message has it, and Escape does not empty that one. */
  onEditLast?: () => void;
}

export const Input = ({ onEditLast, ...props }: Props) => (
  <ComposerPrimitive.Input
    asChild
    cancelOnEscape={onEditLast === undefined}
    onKeyDown={(event) => {
      if (onEditLast !== undefined && isEditLast(event)) {
        event.preventDefault();
        onEditLast();
      }
      // assistant-ui sends on every Enter whose default was not prevented, and does not know the one that ends a word in Safari.
      if (event.key === 'Enter' && isComposing(event)) event.preventDefault();
    }}
  >
    <GrowingTextarea {...props} />
  </ComposerPrimitive.Input>
);
