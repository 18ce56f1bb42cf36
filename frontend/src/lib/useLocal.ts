import { useCallback, useState } from 'react';

/** A preference of this browser. Storage may be refused or hold anything: `read` checks it. */
export function useLocal<T>(key: string, read: (raw: unknown) => T): [T, (next: T) => void] {
  const [value, setValue] = useState<T>(() => {
    try {
      return read(JSON.parse(window.localStorage.getItem(key) ?? 'null'));
    } catch {
      return read(null);
    }
  });
  const store = useCallback(
    (next: T) => {
      setValue(next);
      try {
        window.localStorage.setItem(key, JSON.stringify(next));
      } catch {
        // The preference then lasts as long as the page.
      }
    },
    [key],
  );
  return [value, store];
}
