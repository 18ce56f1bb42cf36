import { useEffect, useRef, type RefObject } from 'react';

import { isForeignKey } from '../../shell/useGlobalShortcuts';

/** `j` and `k` walk over the rows; Enter on a row is the row's own. */
export function useRowKeys(size: number): RefObject<HTMLTableSectionElement | null> {
  const bodyRef = useRef<HTMLTableSectionElement>(null);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.key !== 'j' && event.key !== 'k') || isForeignKey(event) || !bodyRef.current) return;
      const row = document.activeElement?.closest<HTMLElement>('[data-row]');
      const current = row ? Number(row.dataset.row) : event.key === 'j' ? -1 : size;
      const next = Math.min(size - 1, Math.max(0, current + (event.key === 'j' ? 1 : -1)));
      bodyRef.current.querySelector<HTMLElement>(`[data-row="${next}"]`)?.focus();
      event.preventDefault();
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, [size]);
  return bodyRef;
}
