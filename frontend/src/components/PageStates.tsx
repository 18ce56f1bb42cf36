import { Button, Skeleton } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { Link, useRouter, type ErrorComponentProps } from '@tanstack/react-router';
import { useEffect, type ReactNode } from 'react';

import { ErrorState } from './ErrorState';
import { PageHeader } from './PageHeader';
import { Panel } from './Panel';

export function PagePending() {
  return (
    <div aria-busy="true" aria-label="Loading the page">
      <Skeleton height={28} width={240} mb="lg" />
      <Skeleton height={120} mb="md" />
      <Skeleton height={280} />
    </div>
  );
}

/** A page whose code could not be loaded, or that failed while it was drawn. */
export function PageError({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  const client = useQueryClient();
  const retry = () => {
    void client.invalidateQueries();
    reset();
    void router.invalidate();
  };
  return (
    <Standalone>
      <ErrorState title="This page could not be shown" error={error instanceof Error ? error : new Error(String(error))} onRetry={retry} />
    </Standalone>
  );
}

export function PageNotFound() {
  return (
    <Standalone>
      <PageHeader title="There is no such page" summary="The address may be old, or the object was removed." />
      <Button component={Link} to="/" variant="default">
        Go to the Overview
      </Button>
    </Standalone>
  );
}

/** May stand without the shell, so it brings its own space. */
function Standalone({ children }: { children: ReactNode }) {
  useEffect(() => {
    document.title = 'KVCM Platform';
  }, []);
  return (
    <div style={{ maxWidth: 720, margin: '24px auto', padding: '0 16px' }}>
      <Panel>
        <div style={{ paddingTop: 8 }}>{children}</div>
      </Panel>
    </div>
  );
}
