import { Skeleton } from '@mantine/core';
import { IconLock } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';

import { refusalFor, sessionQuery } from '../../api/session';
import { storageQuery, storageTypesQuery } from '../../api/resources';
import type { Storage, StorageTypeInfo } from '../../api/types';
import { DetailFrame } from '../../components/DetailFrame';
import { EmptyState } from '../../components/EmptyState';
import { ErrorState } from '../../components/ErrorState';
import { PageHeader, type PageParent } from '../../components/PageHeader';
import { Panel } from '../../components/Panel';
import { StorageForm } from './StorageForm';

const route = getRouteApi('/app/storages/$name/edit');
const STORAGES: PageParent = { label: 'Storages', to: '/storages' };

export function NewStoragePage() {
  const navigate = useNavigate();
  return (
    <>
      <PageHeader title="Add a storage" parent={STORAGES} summary="A place where engines put KV blocks." />
      <WithTypes>
        {(types) => (
          <StorageForm
            types={types}
            opened={null}
            onSaved={({ name }) => void navigate({ to: '/storages/$name', params: { name } })}
            onCancel={() => void navigate({ to: '/storages' })}
          />
        )}
      </WithTypes>
    </>
  );
}

export function EditStoragePage() {
  const { name } = route.useParams();
  const query = useQuery({ ...storageQuery(name), refetchOnWindowFocus: false });
  return (
    <DetailFrame query={query} what="storage" name={name} parent={STORAGES}>
      {(storage) => <EditStorage key={storage.name} newest={storage} />}
    </DetailFrame>
  );
}

function EditStorage({ newest }: { newest: Storage }) {
  // As it was when the form opened: its version is what makes the server notice a change by someone else.
  const [opened] = useState(newest);
  const navigate = useNavigate();
  const back = () => void navigate({ to: '/storages/$name', params: { name: opened.name } });
  return (
    <>
      <PageHeader title={`Edit ${opened.name}`} parent={STORAGES} summary="Changes are published at once." />
      <WithTypes>{(types) => <StorageForm types={types} opened={opened} onSaved={back} onCancel={back} />}</WithTypes>
    </>
  );
}

function WithTypes({ children }: { children: (types: StorageTypeInfo[]) => ReactNode }) {
  const query = useQuery(storageTypesQuery);
  const { data: session } = useQuery(sessionQuery);
  const refusal = refusalFor(session, 'operator');
  if (refusal) {
    return (
      <Panel>
        <EmptyState icon={<IconLock size={28} stroke={1.5} />} title="Storages are not yours to change">
          {refusal}
        </EmptyState>
      </Panel>
    );
  }
  if (query.data) return children(query.data.results);
  if (query.isError) {
    return (
      <Panel>
        <ErrorState title="The types of storages could not be loaded" error={query.error} onRetry={() => void query.refetch()} />
      </Panel>
    );
  }
  return <Skeleton height={360} aria-label="Loading the types of storages" />;
}
