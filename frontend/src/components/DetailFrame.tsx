import { Button, Skeleton } from '@mantine/core';
import { IconAlertTriangle, IconMoodEmpty } from '@tabler/icons-react';
import type { UseQueryResult } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';

import { ApiError } from '../api/client';
import { relativeTime } from '../lib/time';
import { useNow } from '../lib/useNow';
import classes from './DetailFrame.module.css';
import { EmptyState } from './EmptyState';
import { ErrorState } from './ErrorState';
import layout from './layout.module.css';
import { PageHeader, type PageParent } from './PageHeader';
import { Panel } from './Panel';

interface DetailFrameProps<T> {
  query: UseQueryResult<T>;
  what: string;
  name: string;
  parent: PageParent;
  children: (value: T) => ReactNode;
}

/** What every detail page does around its object: waiting, not there, failed, grown old. */
export function DetailFrame<T>({ query, what, name, parent, children }: DetailFrameProps<T>) {
  if (query.data !== undefined) {
    return (
      <>
        {query.isError && <StaleBanner since={query.dataUpdatedAt} message={query.error.message} />}
        {children(query.data)}
      </>
    );
  }
  return (
    <>
      <PageHeader title={name} isId parent={parent} />
      {query.isError ? (
        <Panel>
          <Failure query={query} what={what} name={name} parent={parent} />
        </Panel>
      ) : (
        <div className={layout.columns} aria-busy="true" aria-label={`Loading the ${what}`}>
          <div className={layout.stack}>
            <Skeleton height={180} />
            <Skeleton height={220} />
          </div>
          <div className={layout.stack}>
            <Skeleton height={150} />
            <Skeleton height={260} />
          </div>
        </div>
      )}
    </>
  );
}

function Failure<T>({ query, what, name, parent }: Omit<DetailFrameProps<T>, 'children'>) {
  if (query.error instanceof ApiError && query.error.status === 404) {
    return (
      <EmptyState
        icon={<IconMoodEmpty size={28} stroke={1.5} />}
        title={`There is no ${what} “${name}”`}
        action={
          <Button component={Link} to={parent.to} variant="default">
            {parent.label}
          </Button>
        }
      >
        It may have been removed, or the address is wrong.
      </EmptyState>
    );
  }
  return (
    <ErrorState
      title={`The ${what} could not be loaded`}
      error={query.error ?? new Error('No answer')}
      onRetry={() => void query.refetch()}
    />
  );
}

function StaleBanner({ since, message }: { since: number; message: string }) {
  const now = useNow(1000);
  return (
    <div className={classes.banner} role="status">
      <IconAlertTriangle size={16} aria-hidden />
      Refresh failed: {message} What you see is from {relativeTime(new Date(since).toISOString(), now)}.
    </div>
  );
}
