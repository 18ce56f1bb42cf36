import { clsx } from 'clsx';

import { bytes, exactBytes, share } from '../../lib/format';
import { meterLevel, type Watermarks } from '../../lib/meter';
import classes from './Meter.module.css';

interface MeterProps extends Watermarks {
  label: string;
  /** Null while it is not known. */
  used: number | null;
  limit: number | null;
}

/** The small meter of a table row: used of limit, and how full. */
export function Meter({ label, used, limit, high, low }: MeterProps) {
  if (used === null) {
    return (
      <span className="muted" title="The index does not answer">
        not known
      </span>
    );
  }
  const level = meterLevel(used, limit, { high: high ?? null });
  if (limit === null || limit <= 0) {
    return (
      <div className={classes.meter}>
        <div className={classes.text}>
          <span title={exactBytes(used)}>{bytes(used)}</span>
          <span className="muted">no limit</span>
        </div>
      </div>
    );
  }
  const ratio = used / limit;
  const width = `${Math.min(1, ratio) * 100}%`;
  return (
    <div className={classes.meter} title={`${exactBytes(used)} of ${exactBytes(limit)}`}>
      <div className={classes.text}>
        <span>
          {bytes(used)} <span className="muted">of {bytes(limit)}</span>
        </span>
        <span className={clsx(level !== 'ok' && classes[level])}>{share(ratio)}</span>
      </div>
      <div
        className={classes.track}
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={limit}
        aria-valuenow={Math.min(used, limit)}
        aria-valuetext={`${bytes(used)} of ${bytes(limit)}, ${share(ratio)}`}
      >
        {used > 0 && <div className={clsx(classes.fill, classes[level])} style={{ width }} />}
        {low != null && <span className={classes.low} style={{ left: `${low * 100}%` }} />}
        {high != null && <span className={classes.high} style={{ left: `${high * 100}%` }} />}
      </div>
    </div>
  );
}
