/** Values with their exact form on hover. One look for each kind of value on every page. */

import { clsx } from 'clsx';

import type { BlockTraffic } from '../api/types';
import { bytes, count, exact, exactBytes, NOTHING, share } from '../lib/format';
import { absoluteTime, relativeTime, utcTime } from '../lib/time';
import { useNow } from '../lib/useNow';

type Maybe = number | null | undefined;

export function Bytes({ value }: { value: Maybe }) {
  if (value == null) return <span className="muted">{NOTHING}</span>;
  return <span title={exactBytes(value)}>{bytes(value)}</span>;
}

export function Count({ value, unit }: { value: Maybe; unit?: string }) {
  if (value == null) return <span className="muted">{NOTHING}</span>;
  return <span title={unit ? `${exact(value)} ${unit}` : exact(value)}>{count(value)}</span>;
}

/** A share of what was requested; nothing requested is not zero per cent. */
export function HitRate({ traffic }: { traffic: BlockTraffic | null }) {
  if (traffic === null) return <span className="muted">{NOTHING}</span>;
  const { hit_rate: value, hit_blocks: hit, requested_blocks: requested } = traffic;
  if (value === null) {
    return (
      <span className="muted" title="Nothing was requested yet">
        {NOTHING}
      </span>
    );
  }
  return <span title={`${exact(hit)} of ${exact(requested)} blocks`}>{share(value)}</span>;
}

export function Time({ value, missing = NOTHING }: { value: string | null | undefined; missing?: string }) {
  const now = useNow();
  if (!value) return <span className="muted">{missing}</span>;
  return (
    <time dateTime={value} title={`${absoluteTime(value)}\n${utcTime(value)}`}>
      {relativeTime(value, now)}
    </time>
  );
}

export function Mono({ children, className }: { children: string | number; className?: string }) {
  return <span className={clsx('mono', className)}>{children}</span>;
}
