// The fermata sign: an arc over a dot.

export const Sign = ({ className = 'size-7' }: { className?: string }) => (
  <svg viewBox="0 0 32 32" className={className} aria-hidden="true">
    <path
      d="M4 23C4 14 9 8 16 8s12 6 12 15"
      fill="none"
      stroke="currentColor"
      strokeWidth="2.6"
      strokeLinecap="round"
    />
    <circle cx="16" cy="21.5" r="2.6" fill="currentColor" />
  </svg>
);
