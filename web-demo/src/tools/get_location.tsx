// Where this browser is, by its geolocation API.
//
// Repeatable: asking twice changes nothing. The model receives its errors, so they say what happened and
// what would help.

import { useTranslation } from 'react-i18next';
import { isRecord } from '../chat/record/isRecord';
import type { PageTool, ToolBodyProps } from './tool';

/** The longest time for the person to allow it, and for the device to find out. */
const LONGEST = 60_000;
/** A position this old, in milliseconds, is still where the browser is. */
const FRESH = 60_000;

export interface Location {
  latitude: number;
  longitude: number;
  /** Radius in metres. */
  accuracy: number;
}

export const getLocation: PageTool = {
  description:
    'Tells where the user is: latitude, longitude and the accuracy in metres. The browser may ask the user first.',
  inputSchema: { type: 'object', properties: {}, additionalProperties: false },
  repeatable: true,
  execute: (_input, { signal }) => locate(signal),
  Body: LocationBody,
};

function locate(signal: AbortSignal): Promise<Location> {
  // Left out of pages that are not served securely.
  const geolocation = (navigator as Partial<Navigator>).geolocation;
  if (geolocation === undefined) {
    throw new Error(
      'This browser gives no location to this page: it needs HTTPS or localhost, and a browser with geolocation.',
    );
  }
  return new Promise((resolve, reject) => {
    // The API's own time limit does not count while the browser waits for permission.
    const timer = setTimeout(() => {
      reject(
        new Error('The location was not found in a minute. Perhaps nobody answered the browser’s question.'),
      );
    }, LONGEST);
    const isOver = () => {
      clearTimeout(timer);
    };
    signal.addEventListener('abort', () => {
      isOver();
      reject(new Error('Stopped.'));
    });
    geolocation.getCurrentPosition(
      ({ coords }) => {
        isOver();
        resolve({ latitude: coords.latitude, longitude: coords.longitude, accuracy: coords.accuracy });
      },
      (error) => {
        isOver();
        reject(new Error(whatWentWrong(error)));
      },
      { timeout: LONGEST, maximumAge: FRESH },
    );
  });
}

function whatWentWrong(error: GeolocationPositionError): string {
  switch (error.code) {
    case error.PERMISSION_DENIED:
      return 'The user, or the browser’s settings, did not allow this page to know the location.';
    case error.TIMEOUT:
      return 'The device did not find its location in a minute.';
    default:
      return 'The device cannot tell its location at present.';
  }
}

function LocationBody({ stage, output }: ToolBodyProps) {
  const { t } = useTranslation('cards');
  if (stage === 'working') return <p className="text-sm text-muted">{t('location.working')}</p>;
  if (stage !== 'done' || !isRecord(output)) return null;
  const { latitude, longitude, accuracy } = output;
  if (typeof latitude !== 'number' || typeof longitude !== 'number') return null;
  return (
    <p className="text-sm tabular-nums">
      {latitude.toFixed(4)}, {longitude.toFixed(4)}{' '}
      {typeof accuracy === 'number' && (
        <span className="text-muted">{t('location.accuracy', { metres: Math.round(accuracy) })}</span>
      )}
    </p>
  );
}
