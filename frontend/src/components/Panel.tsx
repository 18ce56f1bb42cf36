import { clsx } from 'clsx';
import type { ReactNode } from 'react';

import classes from './Panel.module.css';

interface PanelProps {
  title?: ReactNode;
  /** A few words beside the title: the unit, the window of time. */
  note?: ReactNode;
  actions?: ReactNode;
  flush?: boolean;
  className?: string | undefined;
  children: ReactNode;
}

export function Panel({ title, note, actions, flush = false, className, children }: PanelProps) {
  return (
    <section className={clsx(classes.panel, className)}>
      {(title ?? actions) !== undefined && (
        <header className={classes.head}>
          <h2 className={classes.title}>{title}</h2>
          {note !== undefined && <span className={classes.note}>{note}</span>}
          {actions !== undefined && <div className={classes.actions}>{actions}</div>}
        </header>
      )}
      <div className={flush ? undefined : classes.body}>{children}</div>
    </section>
  );
}
