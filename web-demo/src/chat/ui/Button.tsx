// The buttons of the cards.

import { LoaderCircle } from 'lucide-react';
import type { ComponentProps } from 'react';

export type ButtonTone = 'primary' | 'plain' | 'quiet' | 'danger';

export interface ButtonProps extends ComponentProps<'button'> {
  tone?: ButtonTone;
  /** `true` if what it does is under way. It keeps its focus, and does nothing more. */
  isBusy?: boolean;
}

const TONES: Record<ButtonTone, string> = {
  primary: 'bg-accent text-accent-ink hover:opacity-90',
  plain: 'border border-field bg-raised text-ink hover:bg-sunken',
  quiet: 'text-muted hover:bg-sunken hover:text-ink',
  danger: 'border border-field bg-raised text-bad hover:bg-bad-soft',
};

export function Button({
  tone = 'plain',
  isBusy = false,
  className = '',
  children,
  onClick,
  disabled,
  type,
  ...rest
}: ButtonProps) {
  // `aria-disabled` while busy: `disabled` would drop the focus, and a screen reader its place.
  const isOff = isBusy || disabled === true;
  return (
    <button
      {...rest}
      type={type ?? 'button'}
      disabled={disabled}
      aria-disabled={isOff || undefined}
      aria-busy={isBusy || undefined}
      onClick={
        isOff
          ? (event) => {
              event.preventDefault();
            }
          : onClick
      }
      className={
        'inline-flex min-h-10 pointer-coarse:min-h-11 items-center justify-center gap-1.5 rounded-lg px-3.5 text-sm ' +
        'font-medium transition-colors ' +
        'focus-visible:outline-2 focus-visible:outline-offset-2 focus-visible:outline-accent ' +
        `disabled:opacity-50 aria-disabled:cursor-default ${TONES[tone]} ${className}`
      }
    >
      {isBusy && <LoaderCircle aria-hidden className="size-4 motion-safe:animate-spin" />}
      {children}
    </button>
  );
}
