import { Checkbox } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';

import { storageQuery, storageRemove } from '../../api/resources';
import type { Storage } from '../../api/types';
import { ConfirmDialog } from '../../components/actions/ConfirmDialog';
import { notifyDone } from '../../components/notify';
import { removalConsequences } from './consequences';

/** Removes a storage; forced, its blocks go first and the page shows how far that is. */
export function RemoveStorage({ storage, onClose }: { storage: Storage; onClose: () => void }) {
  const [force, setForce] = useState(false);
  const client = useQueryClient();
  const navigate = useNavigate();
  const needsForce = storage.groups.length > 0 || storage.usage === null || storage.usage.blocks > 0;
  const remove = useMutation({
    mutationFn: () => storageRemove(storage.name, force),
    onSuccess: (staying) => {
      void client.invalidateQueries({ queryKey: ['storages', 'list'] });
      onClose();
      if (staying) {
        client.setQueryData(storageQuery(storage.name).queryKey, staying);
        notifyDone(`The blocks of ${storage.name} are being removed`);
        return;
      }
      notifyDone(`${storage.name} is removed`);
      void navigate({ to: '/storages' });
    },
  });
  return (
    <ConfirmDialog
      opened
      onClose={onClose}
      title="Remove the storage"
      consequences={removalConsequences(storage, force)}
      typedName={storage.name}
      confirmLabel={force ? 'Remove it and its blocks' : 'Remove'}
      danger
      pending={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate()}
    >
      {needsForce && (
        <Checkbox
          size="xs"
          label="Remove its blocks first, whoever names it"
          checked={force}
          onChange={(event) => setForce(event.currentTarget.checked)}
        />
      )}
    </ConfirmDialog>
  );
}
