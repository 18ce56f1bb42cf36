import { clsx } from 'clsx';
import type { ReactNode } from 'react';

import classes from './Facts.module.css';

export interface Fact {
  label: string;
  value: ReactNode;
  /** What the member means, on hover. */
  hint?: string;
}

/** Names and values in aligned rows; in a wide panel they stand in two columns. */
export function Facts({ facts, wide = false }: { facts: readonly Fact[]; wide?: boolean }) {
  return (
    <dl className={clsx(classes.facts, wide && classes.wide)}>
      {facts.map(({ label, value, hint }) => (
        <div key={label} className={classes.row}>
          <dt className={classes.label}>
            {hint ? (
              <span className="has-more" title={hint}>
                {label}
              </span>
            ) : (
              label
            )}
          </dt>
          <dd className={classes.value}>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Figures side by side, larger than facts. */
export function Figures({ figures }: { figures: readonly Fact[] }) {
  return (
    <dl className={classes.figures}>
      {figures.map(({ label, value, hint }) => (
        <div key={label}>
          <dt className={classes.figureLabel} title={hint}>
            {label}
          </dt>
          <dd className={classes.figure}>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
