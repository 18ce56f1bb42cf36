import type { ReactNode } from 'react';

import classes from './Overview.module.css';

interface FigureProps {
  /** Also the accessible name of the value, under which tests and readers find it. */
  label: string;
  value: string;
  exact?: string | undefined;
  detail?: ReactNode;
}

export function Figure({ label, value, exact, detail }: FigureProps) {
  return (
    <div className={classes.card}>
      <div className={classes.cardLabel} aria-hidden>
        {label}
      </div>
      <div className={classes.cardValue} role="group" aria-label={label} title={exact}>
        {value}
      </div>
      <div className={classes.cardDetail}>{detail}</div>
    </div>
  );
}
