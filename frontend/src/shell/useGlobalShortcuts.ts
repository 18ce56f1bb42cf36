import { useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useEffect } from 'react';

import { useLiveConnection } from '../live/LiveProvider';
import { PLACES } from './places';

/** How long after `g` the second key still counts. */
const SEQUENCE_MS = 1200;

/** Keys belong to a field being typed in, to a dialog that is open, and to the browser's own chords. */
export function isForeignKey(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return true;
  const target = event.target;
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.closest('input, textarea, select')) return true;
  return document.querySelector('[role="dialog"], [role="menu"]') !== null;
}

export function useGlobalShortcuts(openSheet: () => void): void {
  const navigate = useNavigate();
  const connection = useLiveConnection();
  const client = useQueryClient();
  useEffect(() => {
    let goAt = 0;
    const onKey = (event: KeyboardEvent) => {
      if (isForeignKey(event)) return;
      if (Date.now() - goAt < SEQUENCE_MS) {
        goAt = 0;
        const place = PLACES.find(({ key }) => key === event.key);
        if (place) {
          event.preventDefault();
          void navigate({ to: place.to });
          return;
        }
      }
      switch (event.key) {
        case 'g':
          goAt = Date.now();
          return;
        case '?':
          openSheet();
          break;
        case 'p':
          connection.setPaused(!connection.getSnapshot().paused);
          break;
        case 'r':
          void client.invalidateQueries();
          break;
        case '/':
          document.querySelector<HTMLElement>('[data-filter]')?.focus();
          break;
        default:
          return;
      }
      event.preventDefault();
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, [navigate, connection, client, openSheet]);
}
