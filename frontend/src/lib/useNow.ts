import { useEffect, useState } from 'react';

/** The time, renewed every `interval` ms, for texts such as "12 s ago". */
export function useNow(interval = 5000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), interval);
    return () => clearInterval(timer);
  }, [interval]);
  return now;
}
