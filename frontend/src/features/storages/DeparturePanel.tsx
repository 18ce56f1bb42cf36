import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { storageAbandon, storageQuery, storageRestore } from '../../api/resources';
import type { Storage } from '../../api/types';
import { ActionButton } from '../../components/actions/ActionButton';
import { ConfirmDialog } from '../../components/actions/ConfirmDialog';
import { Figures } from '../../components/Facts';
import { notifyDone } from '../../components/notify';
import { Panel } from '../../components/Panel';
import { Bytes, Count, Time } from '../../components/values';
import { bytes, share } from '../../lib/format';
import { departureWords, etaWords } from './departure';
import classes from './storages.module.css';

/** How a storage empties that drains or is being removed. */
export function DeparturePanel({ storage }: { storage: Storage }) {
  const { departure } = storage;
  if (departure === null) return null;
  const progress = departure.progress_ratio;
  return (
    <Panel title={departure.kind === 'leaving' ? 'Removal' : 'Drain'} note={departureWords(storage)}>
      <div
        className={classes.track}
        role="progressbar"
        aria-label={departure.kind === 'leaving' ? 'Progress of the removal' : 'Progress of the drain'}
        aria-valuemin={0}
        aria-valuemax={100}
        {...(progress === null ? {} : { 'aria-valuenow': Math.round(progress * 100) })}
        aria-valuetext={progress === null ? 'not known' : share(progress)}
      >
        <div className={classes.fill} style={{ width: `${(progress ?? 0) * 100}%` }} />
      </div>
      <Figures
        figures={[
          { label: 'Done', value: progress === null ? 'not known' : share(progress) },
          { label: 'Blocks left', value: <Count value={departure.blocks_left} unit="blocks" /> },
          { label: 'Bytes left', value: <Bytes value={departure.bytes_left} /> },
          {
            label: 'Rate',
            value: departure.bytes_per_second === null ? 'not known' : `${bytes(departure.bytes_per_second)}/s`,
            hint: 'Over the last minutes',
          },
          { label: 'Done in', value: etaWords(departure), hint: 'At this rate' },
          { label: 'Since', value: <Time value={departure.since} /> },
        ]}
      />
      {storage.leaving && <RemovalActions storage={storage} />}
    </Panel>
  );
}

function RemovalActions({ storage }: { storage: Storage }) {
  const [asking, setAsking] = useState<'restore' | 'abandon' | null>(null);
  const client = useQueryClient();
  const act = useMutation({
    mutationFn: () => (asking === 'abandon' ? storageAbandon(storage.name) : storageRestore(storage.name)),
    onSuccess: (changed) => {
      client.setQueryData(storageQuery(storage.name).queryKey, changed);
      void client.invalidateQueries({ queryKey: ['storages', 'list'] });
      notifyDone(asking === 'abandon' ? `${storage.name} is given up` : `${storage.name} stays`);
      setAsking(null);
    },
  });
  return (
    <div className={classes.departureActions}>
      <ActionButton
        needs="operator"
        onClick={() => setAsking('restore')}
        blockedBecause={storage.abandoned ? 'It was given up: its blocks are being forgotten' : null}
      >
        Call the removal off
      </ActionButton>
      <ActionButton
        needs="operator"
        onClick={() => setAsking('abandon')}
        blockedBecause={storage.abandoned ? 'It was given up already' : null}
      >
        Give it up
      </ActionButton>
      {asking && (
        <ConfirmDialog
          opened
          onClose={() => setAsking(null)}
          title={asking === 'abandon' ? 'Give the storage up' : 'Call the removal off'}
          consequences={
            asking === 'abandon'
              ? ['Its blocks are forgotten at once, its objects stay where they are.', 'For a storage that does not answer any more; it cannot be undone.']
              : ['The blocks that are still there are served again.', 'Those removed so far do not come back.']
          }
          {...(asking === 'abandon' ? { typedName: storage.name } : {})}
          confirmLabel={asking === 'abandon' ? 'Give it up' : 'Keep the storage'}
          danger={asking === 'abandon'}
          pending={act.isPending}
          error={act.error}
          onConfirm={() => act.mutate()}
        />
      )}
    </div>
  );
}
