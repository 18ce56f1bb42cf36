import { IconTrash } from '@tabler/icons-react';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';

import { instanceRemove } from '../../api/resources';
import type { Instance } from '../../api/types';
import { ActionButton } from '../../components/actions/ActionButton';
import { ConfirmDialog } from '../../components/actions/ConfirmDialog';
import { notifyDone } from '../../components/notify';
import { bytes, plural } from '../../lib/format';

export function RemoveInstance({ instance }: { instance: Instance }) {
  const [open, setOpen] = useState(false);
  const client = useQueryClient();
  const navigate = useNavigate();
  const { instance_id: id, usage } = instance;
  const sessions = instance.open_write_sessions ?? 0;
  const remove = useMutation({
    mutationFn: () => instanceRemove(id),
    onSuccess: async () => {
      await navigate({ to: '/instances' });
      client.removeQueries({ queryKey: ['instances', 'detail', id] });
      void client.invalidateQueries({ queryKey: ['instances'] });
      void client.invalidateQueries({ queryKey: ['groups'] });
      notifyDone(`Instance ${id} is removed`);
    },
  });
  return (
    <>
      <ActionButton needs="operator" leftSection={<IconTrash size={14} />} onClick={() => setOpen(true)}>
        Remove
      </ActionButton>
      <ConfirmDialog
        opened={open}
        onClose={() => {
          setOpen(false);
          remove.reset();
        }}
        title="Remove the instance"
        consequences={[
          usage ? (
            <>
              <strong>{plural(usage.blocks, 'block')}</strong> ({bytes(usage.used_bytes)}) are deleted and cannot be
              brought back.
            </>
          ) : (
            'Its blocks (not counted now) are deleted and cannot be brought back.'
          ),
          sessions > 0 ? `${plural(sessions, 'open write session')} end without effect.` : 'No write session is open.',
          'An engine that is still running has to register again, and starts with nothing.',
        ]}
        typedName={id}
        confirmLabel="Remove"
        danger
        pending={remove.isPending}
        error={remove.error}
        onConfirm={() => remove.mutate()}
      />
    </>
  );
}
