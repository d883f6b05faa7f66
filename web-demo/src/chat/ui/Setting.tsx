// One line of the settings: what it is called, and how it is set.

import type { ReactNode } from 'react';

export const Setting = ({ label, children }: { label: ReactNode; children: ReactNode }) => (
  <div className="flex min-h-14 flex-wrap items-center justify-between gap-x-4 gap-y-1.5 py-2">
    <span className="text-sm">{label}</span>
    {children}
  </div>
);
