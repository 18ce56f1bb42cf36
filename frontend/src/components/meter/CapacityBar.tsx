import { bytes, exactBytes, share } from '../../lib/format';
import { segments, type Watermarks } from '../../lib/meter';
import classes from './CapacityBar.module.css';

export interface CapacityPart {
  key: 'used' | 'reserved' | 'pending';
  label: string;
  value: number;
  hint: string;
}

interface CapacityBarProps extends Watermarks {
  parts: readonly CapacityPart[];
  limit: number | null;
  limitLabel: string;
}

/** The large meter of a page: parts against a limit, both watermarks, and what is free in words. */
export function CapacityBar({ parts, limit, limitLabel, high, low }: CapacityBarProps) {
  const total = parts.reduce((sum, part) => sum + part.value, 0);
  const whole = limit ?? 0;
  const scale = Math.max(whole, total);
  const at = (ratio: number) => `${Math.min(1, (ratio * whole) / (scale || 1)) * 100}%`;
  const limited = limit !== null && limit > 0;
  return (
    <div>
      {/* The legend below says the same in words. Without a limit there is no whole to draw. */}
      {limited && (
        <div className={classes.bar} aria-hidden>
          {segments(parts, whole).map((segment) => (
            <span
              key={segment.key}
              className={classes.segment}
              data-part={segment.key}
              style={{ left: `${segment.start * 100}%`, width: `${segment.width * 100}%` }}
            />
          ))}
          {low != null && <span className={classes.low} style={{ left: at(low) }} />}
          {high != null && <span className={classes.high} style={{ left: at(high) }} />}
        </div>
      )}
      <dl className={classes.legend}>
        {parts.map((part) => (
          <div key={part.key} title={`${part.hint}\n${exactBytes(part.value)}`}>
            <dt>
              <span className={classes.swatch} data-part={part.key} aria-hidden />
              {part.label}
            </dt>
            <dd>{bytes(part.value)}</dd>
          </div>
        ))}
        {limited && (
          <div title={exactBytes(Math.max(0, limit - total))}>
            <dt>
              <span className={classes.swatch} aria-hidden />
              Free
            </dt>
            <dd>{total > limit ? `over by ${bytes(total - limit)}` : bytes(limit - total)}</dd>
          </div>
        )}
        <div title={limited ? exactBytes(limit) : undefined}>
          <dt>{limitLabel}</dt>
          <dd>{limited ? bytes(limit) : 'no limit'}</dd>
        </div>
        {limited && high != null && <Mark kind="high" label="High watermark" ratio={high} limit={limit} />}
        {limited && low != null && <Mark kind="low" label="Low watermark" ratio={low} limit={limit} />}
      </dl>
    </div>
  );
}

function Mark(props: { kind: 'high' | 'low'; label: string; ratio: number; limit: number }) {
  return (
    <div title={exactBytes(Math.round(props.ratio * props.limit))}>
      <dt>
        <span className={props.kind === 'high' ? classes.highSwatch : classes.lowSwatch} aria-hidden />
        {props.label}
      </dt>
      <dd>
        {share(props.ratio)} <span className="muted">{bytes(props.ratio * props.limit)}</span>
      </dd>
    </div>
  );
}
