import { Link } from '@tanstack/react-router';
import { useEffect, type ReactNode } from 'react';

import classes from './PageHeader.module.css';

export interface PageParent {
  label: string;
  to: '/storages' | '/groups' | '/instances';
}

interface PageHeaderProps {
  title: string;
  /** Keys and ids are set in the mono face. */
  isId?: boolean;
  parent?: PageParent;
  badges?: ReactNode;
  actions?: ReactNode;
  summary?: ReactNode;
}

export function PageHeader({ title, isId = false, parent, badges, actions, summary }: PageHeaderProps) {
  useEffect(() => {
    document.title = `${title} · KVCM Platform`;
  }, [title]);
  return (
    <div className={classes.header}>
      <div className={classes.heading}>
        {parent && (
          <nav aria-label="Breadcrumb" className={classes.crumbs}>
            <Link to={parent.to}>{parent.label}</Link>
            <span aria-hidden>/</span>
          </nav>
        )}
        <div className={classes.titleRow}>
          <h1 className={isId ? classes.id : classes.title}>{title}</h1>
          {badges}
        </div>
        {summary !== undefined && <p className={classes.summary}>{summary}</p>}
      </div>
      {actions !== undefined && <div className={classes.actions}>{actions}</div>}
    </div>
  );
}
