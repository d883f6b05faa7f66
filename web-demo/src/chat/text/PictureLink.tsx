// A picture that a model or a tool names. Its address can carry anything that the model has read, so a picture from elsewhere
// is a link to it.

import { Image } from 'lucide-react';
import { useContext } from 'react';
import { useTranslation } from 'react-i18next';
import { ExternalLink, InLink } from './Links';

/** A picture from elsewhere: a link that opens it. */
export function PictureLink({ address, name }: { address: string; name: string }) {
  const { t } = useTranslation();
  const isInLink = useContext(InLink);
  if (isInLink) return name;
  return (
    <ExternalLink address={address}>
      <Image className="mr-1 inline size-4 align-text-bottom" aria-hidden="true" />
      {t('messages.openPicture', { name: name === '' ? t('messages.image') : name })}
    </ExternalLink>
  );
}
