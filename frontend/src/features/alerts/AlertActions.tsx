import { Button, Modal, NativeSelect, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { alertAcknowledge, silenceAdd } from '../../api/resources';
import type { Alert } from '../../api/types';
import { ActionButton } from '../../components/actions/ActionButton';
import dialog from '../../components/actions/ConfirmDialog.module.css';
import { MutationError } from '../../components/actions/MutationError';
import { notifyDone, notifyError } from '../../components/notify';
import { ruleTitle } from './severity';

/** Take an alert on, and keep it from being told for a while. */
export function AlertActions({ alert, onSilence }: { alert: Alert; onSilence: () => void }) {
  const client = useQueryClient();
  const acknowledge = useMutation({
    mutationFn: () => alertAcknowledge(alert.id, !alert.acknowledged),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ['alerts'] });
    },
    onError: (error) => notifyError('The alert could not be acknowledged', error),
  });
  return (
    <>
      <ActionButton
        needs="operator"
        size="compact-xs"
        loading={acknowledge.isPending}
        onClick={() => acknowledge.mutate()}
      >
        {alert.acknowledged ? 'Give back' : 'Acknowledge'}
      </ActionButton>
      <ActionButton
        needs="operator"
        size="compact-xs"
        onClick={onSilence}
        blockedBecause={alert.silenced ? 'A silence fits it already' : null}
      >
        Silence
      </ActionButton>
    </>
  );
}

const LENGTHS = [
  { value: '3600', label: '1 hour' },
  { value: '14400', label: '4 hours' },
  { value: '86400', label: '1 day' },
  { value: '604800', label: '1 week' },
];

export function SilenceDialog({ alert, onClose }: { alert: Alert; onClose: () => void }) {
  const [seconds, setSeconds] = useState('3600');
  const [scope, setScope] = useState<'this' | 'rule' | 'subject'>('this');
  const [reason, setReason] = useState('');
  const client = useQueryClient();
  const silence = useMutation({
    mutationFn: () =>
      silenceAdd({
        rule: scope === 'subject' ? '' : alert.rule,
        subject: scope === 'rule' ? '' : alert.subject,
        until: new Date(Date.now() + Number(seconds) * 1000).toISOString(),
        reason: reason.trim(),
      }),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ['alerts'] });
      notifyDone('The silence has begun');
      onClose();
    },
  });
  return (
    <Modal opened onClose={onClose} title="Silence the alert" size="md">
      <form
        className={dialog.form}
        onSubmit={(event) => {
          event.preventDefault();
          if (reason.trim() && !silence.isPending) silence.mutate();
        }}
      >
        <p>
          Receivers are not told meanwhile. The alert stays on this page, and is told once the silence ends if it
          still fires.
        </p>
        <NativeSelect
          size="xs"
          label="Which alerts"
          value={scope}
          onChange={(event) => setScope(event.currentTarget.value as typeof scope)}
          data={[
            { value: 'this', label: `${ruleTitle(alert.rule)} of ${alert.subject}` },
            { value: 'subject', label: `Whatever is about ${alert.subject}` },
            { value: 'rule', label: `${ruleTitle(alert.rule)} of everything` },
          ]}
        />
        <NativeSelect
          size="xs"
          label="For how long"
          value={seconds}
          onChange={(event) => setSeconds(event.currentTarget.value)}
          data={LENGTHS}
        />
        <TextInput
          label="Reason"
          required
          maxLength={500}
          placeholder="Why nobody has to be told"
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
          data-autofocus
        />
        {silence.error && <MutationError error={silence.error} />}
        <div className={dialog.buttons}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" disabled={!reason.trim()} loading={silence.isPending}>
            Silence
          </Button>
        </div>
      </form>
    </Modal>
  );
}
