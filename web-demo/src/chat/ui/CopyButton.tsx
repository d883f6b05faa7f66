// Copies a text, and says for a moment that it did.

import { Check, Copy } from 'lucide-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { IconButton } from './IconButton';

const SHOWN_FOR = 1600;

interface Props {
  label: string;
  text: () => string;
  className?: string;
}

export function CopyButton({ label, text, className }: Props) {
  const { t } = useTranslation();
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text());
    } catch {
      // The browser forbids it, as it does on a page that came over plain http.
      return;
    }
    setCopied(true);
    setTimeout(() => {
      setCopied(false);
    }, SHOWN_FOR);
  };
  return (
    <IconButton
      label={isCopied ? t('messages.copied') : label}
      onClick={() => void copy()}
      className={className}
    >
      {isCopied ? <Check className="text-good" /> : <Copy />}
    </IconButton>
  );
}
