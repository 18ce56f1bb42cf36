import { Button } from '@mantine/core';
import { IconAlertTriangle, IconLock, IconRefresh } from '@tabler/icons-react';

import { ApiError } from '../api/client';
import { CopyButton } from './CopyButton';
import classes from './States.module.css';

interface ErrorStateProps {
  /** What failed: "The storages could not be loaded". */
  title: string;
  error: Error;
  onRetry?: () => void;
}

export function ErrorState({ title, error, onRetry }: ErrorStateProps) {
  const api = error instanceof ApiError ? error : null;
  const forbidden = api?.status === 403;
  const Icon = forbidden ? IconLock : IconAlertTriangle;
  return (
    <div className={classes.state} role="alert">
      <Icon size={28} stroke={1.5} className={forbidden ? classes.iconMuted : classes.iconCritical} aria-hidden />
      <p className={classes.title}>{forbidden ? 'You may not see this' : title}</p>
      <p className={classes.text}>{error.message}</p>
      {api && (
        <dl className={classes.details}>
          <dt>Code</dt>
          <dd>{api.code}</dd>
          {api.requestId && (
            <>
              <dt>Request</dt>
              <dd>
                {api.requestId} <CopyButton value={api.requestId} label="Copy the request id" />
              </dd>
            </>
          )}
        </dl>
      )}
      {onRetry && !forbidden && (
        <Button variant="default" leftSection={<IconRefresh size={14} />} onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}
