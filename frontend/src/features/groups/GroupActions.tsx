import { Button, Modal, NativeSelect, NumberInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { ApiError } from '../../api/client';
import { groupQuery, groupUpdate } from '../../api/resources';
import type { InstanceGroup } from '../../api/types';
import { ActionButton } from '../../components/actions/ActionButton';
import dialog from '../../components/actions/ConfirmDialog.module.css';
import { MutationError } from '../../components/actions/MutationError';
import { notifyDone } from '../../components/notify';
import { exactBytes } from '../../lib/format';
import classes from './groups.module.css';
import { bytesOf, splitBytes, UNITS, type Unit } from './quotaInput';
import { effectOf } from './reclaim';

export function GroupActions({ group }: { group: InstanceGroup }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <ActionButton needs="operator" onClick={() => setOpen(true)}>
        Edit quota
      </ActionButton>
      <Modal opened={open} onClose={() => setOpen(false)} title={`Quota of ${group.name}`} size="md">
        <QuotaForm group={group} onDone={() => setOpen(false)} />
      </Modal>
    </>
  );
}

function QuotaForm({ group: newest, onDone }: { group: InstanceGroup; onDone: () => void }) {
  // The object as it was when the form opened: a refresh behind the dialog must not move what is
  // being edited, and its version is what makes the server notice a change by someone else.
  const [group, setGroup] = useState(newest);
  const [quota, setQuota] = useState(() => splitBytes(newest.quota.capacity_bytes));
  const [percent, setPercent] = useState(() => toPercent(newest.reclaim.used_ratio));
  const client = useQueryClient();

  const capacity = bytesOf(quota);
  const ratio = percent / 100;
  const changed = capacity !== group.quota.capacity_bytes || percent !== toPercent(group.reclaim.used_ratio);
  const valid = capacity > 0 && ratio >= 0;
  const effect = effectOf(newest, capacity, ratio);

  const save = useMutation({
    mutationFn: () =>
      groupUpdate(group.name, {
        version: group.version,
        quota: { capacity_bytes: capacity },
        reclaim: { used_ratio: ratio },
      }),
    onSuccess: (saved) => {
      client.setQueryData(groupQuery(group.name).queryKey, saved);
      void client.invalidateQueries({ queryKey: ['groups', 'list'] });
      notifyDone(`Quota of ${group.name} is saved`);
      onDone();
    },
    // After a conflict the page behind the dialog is old as well.
    onError: () => void client.invalidateQueries({ queryKey: ['groups'] }),
  });
  const reload = useMutation({
    mutationFn: () => client.query({ ...groupQuery(group.name), staleTime: 0 }),
    onSuccess: (fresh) => {
      setGroup(fresh);
      setQuota(splitBytes(fresh.quota.capacity_bytes));
      setPercent(toPercent(fresh.reclaim.used_ratio));
      save.reset();
    },
  });
  const conflict = save.error instanceof ApiError && save.error.code === 'version_conflict';

  return (
    <form
      className={dialog.form}
      onSubmit={(event) => {
        event.preventDefault();
        if (valid && changed) save.mutate();
      }}
    >
      <div className={classes.quotaRow}>
        <NumberInput
          label="Capacity"
          description={exactBytes(capacity)}
          min={0}
          decimalScale={3}
          thousandSeparator=","
          value={quota.amount}
          onChange={(value) => setQuota({ ...quota, amount: Number(value) })}
          data-autofocus
        />
        <NativeSelect
          size="xs"
          aria-label="Unit"
          data={[...UNITS]}
          value={quota.unit}
          onChange={(event) => setQuota(splitBytes(capacity, event.currentTarget.value as Unit))}
        />
      </div>
      <NumberInput
        label="Reclaim starts at"
        description={`High watermark, in per cent of the capacity (used_ratio); ${meaning(ratio, group.reclaim.used_bytes)}`}
        suffix=" %"
        min={0}
        decimalScale={2}
        value={percent}
        onChange={(value) => setPercent(Number(value))}
      />
      <p className={classes.effect} data-tone={effect.tone} aria-live="polite">
        {effect.text}
      </p>
      {save.error && (
        <MutationError error={save.error}>
          {conflict && (
            <>
              {' '}
              Somebody else saved the group while this was open.
              <button type="button" className={classes.reload} onClick={() => reload.mutate()}>
                Load the newest values
              </button>
            </>
          )}
        </MutationError>
      )}
      <div className={dialog.buttons}>
        <Button variant="default" onClick={onDone}>
          Cancel
        </Button>
        <Button type="submit" disabled={!valid || !changed} loading={save.isPending}>
          Save
        </Button>
      </div>
    </form>
  );
}

function meaning(ratio: number, usedBytes: number): string {
  if (ratio > 1) return 'above 100 % it never starts, but for a lower quota';
  if (ratio > 0) return 'above 100 % = never';
  return usedBytes > 0 ? `0 = at ${exactBytes(usedBytes)} (used_bytes)` : '0 = at the quota itself';
}

function toPercent(ratio: number): number {
  return Math.round(ratio * 10_000) / 100;
}
