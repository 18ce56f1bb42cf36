import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';


import type { FigurePlace } from './figures';
import classes from './Overview.module.css';

interface FigureProps {
  /** Also the accessible name of the value, under which tests and readers find it. */
  label: string;
  value: string;
  exact?: string | undefined;
  detail?: ReactNode;
  /** The page that tells more. */
  to?: FigurePlace | undefined;
}

export function Figure({ label, value, exact, detail, to }: FigureProps) {
  return (
    <div className={classes.card}>
      <div className={classes.cardLabel}>{to ? <Link to={to}>{label}</Link> : label}</div>
      <div className={classes.cardValue} role="group" aria-label={label} title={exact}>
        {value}
      </div>
      <div className={classes.cardDetail}>{detail}</div>
    </div>
  );
}
