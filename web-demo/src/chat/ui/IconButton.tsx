// A button that shows an icon and is called by its label.

import type { ComponentProps } from 'react';

/**
 * The colours of a button in all of its states. Classes given from outside cannot change them: which of two classes for one
 * property wins is the order of the stylesheet, not that of the attribute.
 */
const TONES = {
  quiet:
    'text-muted not-disabled:hover:bg-sunken not-disabled:hover:text-ink aria-pressed:text-accent ' +
    'disabled:opacity-70',
  outlined: 'border border-field text-ink not-disabled:hover:bg-sunken disabled:opacity-70',
  primary: 'bg-accent text-accent-ink not-disabled:hover:opacity-90 disabled:bg-sunken disabled:text-muted',
};

type Props = Omit<ComponentProps<'button'>, 'aria-label' | 'title' | 'className'> & {
  label: string;
  tone?: keyof typeof TONES;
  /** Classes for where it stands and when it is shown; its colours are those of its tone. */
  className?: string | undefined;
};

export const IconButton = ({ label, tone = 'quiet', className = '', children, ...rest }: Props) => (
  <button
    type="button"
    aria-label={label}
    title={label}
    className={
      'inline-flex size-8 shrink-0 cursor-pointer items-center justify-center rounded-lg ' +
      'transition-colors disabled:cursor-default pointer-coarse:size-11 ' +
      `[&_svg]:size-4 ${TONES[tone]} ${className}`
    }
    {...rest}
  >
    {children}
  </button>
);
