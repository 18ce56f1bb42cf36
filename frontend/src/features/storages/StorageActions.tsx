import { TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';

import { storageQuery, storageUpdate } from '../../api/resources';
import type { Storage, StorageChange } from '../../api/types';
import { ActionButton } from '../../components/actions/ActionButton';
import { ConfirmDialog } from '../../components/actions/ConfirmDialog';
import { notifyDone } from '../../components/notify';
import { consequencesOf, type StorageVerb } from './consequences';
import { RemoveStorage } from './RemoveStorage';

const LABELS: Record<StorageVerb, { button: string; title: string; done: string }> = {
  enable: { button: 'Enable', title: 'Enable the storage', done: 'is enabled' },
  disable: { button: 'Disable', title: 'Disable the storage', done: 'is disabled' },
  drain: { button: 'Drain', title: 'Drain the storage', done: 'is draining' },
  undrain: { button: 'Stop draining', title: 'Stop draining the storage', done: 'takes new blocks again' },
};

const CHANGES: Record<StorageVerb, Omit<StorageChange, 'version'>> = {
  enable: { enabled: true },
  disable: { enabled: false },
  drain: { draining: true },
  undrain: { draining: false },
};

export function StorageActions({ storage }: { storage: Storage }) {
  const [verb, setVerb] = useState<StorageVerb | null>(null);
  const [isRemoving, setRemoving] = useState(false);
  const navigate = useNavigate();
  if (storage.leaving) return null;
  const offered: StorageVerb[] = [storage.draining ? 'undrain' : 'drain', storage.enabled ? 'disable' : 'enable'];
  return (
    <>
      <ActionButton
        needs="operator"
        onClick={() => void navigate({ to: '/storages/$name/edit', params: { name: storage.name } })}
      >
        Edit
      </ActionButton>
      {offered.map((each) => (
        <ActionButton key={each} needs="operator" onClick={() => setVerb(each)}>
          {LABELS[each].button}
        </ActionButton>
      ))}
      <ActionButton needs="operator" onClick={() => setRemoving(true)}>
        Remove
      </ActionButton>
      {verb && <StorageDialog storage={storage} verb={verb} onClose={() => setVerb(null)} />}
      {isRemoving && <RemoveStorage storage={storage} onClose={() => setRemoving(false)} />}
    </>
  );
}

interface StorageDialogProps {
  storage: Storage;
  verb: StorageVerb;
  onClose: () => void;
}

function StorageDialog({ storage, verb, onClose }: StorageDialogProps) {
  const [note, setNote] = useState(storage.maintenance_note);
  const client = useQueryClient();
  const takesAway = verb === 'disable' || verb === 'drain';
  const change = useMutation({
    mutationFn: () =>
      storageUpdate(storage.name, {
        version: storage.version,
        ...CHANGES[verb],
        ...(note === storage.maintenance_note ? {} : { maintenance_note: note.trim() }),
      }),
    onSuccess: (changed) => {
      client.setQueryData(storageQuery(storage.name).queryKey, changed);
      void client.invalidateQueries({ queryKey: ['storages', 'list'] });
      void client.invalidateQueries({ queryKey: ['groups'] });
      notifyDone(`${storage.name} ${LABELS[verb].done}`);
      onClose();
    },
    // A conflict means that what we show is old: the next try carries the newest version.
    onError: () => void client.invalidateQueries({ queryKey: ['storages'] }),
  });
  return (
    <ConfirmDialog
      opened
      onClose={onClose}
      title={LABELS[verb].title}
      consequences={consequencesOf(storage, verb)}
      confirmLabel={LABELS[verb].button}
      danger={verb === 'disable'}
      pending={change.isPending}
      error={change.error}
      onConfirm={() => change.mutate()}
    >
      <TextInput
        label="Maintenance note"
        description={takesAway ? 'Shown to everyone who looks at the storage.' : 'Clear it if it no longer applies.'}
        placeholder={takesAway ? 'Why, and until when' : ''}
        value={note}
        maxLength={500}
        onChange={(event) => setNote(event.currentTarget.value)}
      />
    </ConfirmDialog>
  );
}
