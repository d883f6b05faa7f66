// A button that shows an icon and is called by its label.

import type { ComponentProps } from 'react';

type Props = Omit<ComponentProps<'button'>, 'aria-label' | 'title'> & { label: string };

export const IconButton = ({ label, className, children, ...rest }: Props) => (
  <button
    type="button"
    aria-label={label}
    title={label}
    className={
      'inline-flex size-8 shrink-0 cursor-pointer items-center justify-center rounded-lg ' +
      'text-muted transition-colors hover:bg-sunken hover:text-ink disabled:cursor-default ' +
      `disabled:opacity-40 pointer-coarse:size-10 [&_svg]:size-4 ${className ?? ''}`
    }
    {...rest}
  >
    {children}
  </button>
);
