import { Tooltip, UnstyledButton } from '@mantine/core';
import { IconPlayerPause, IconPlayerPlay } from '@tabler/icons-react';
import { clsx } from 'clsx';

import { clock } from '../lib/time';
import { useLiveConnection, useLiveStatus, type LiveState } from '../live/LiveProvider';
import classes from './LivePill.module.css';

function words({ status, receivedAt }: LiveState): string {
  switch (status) {
    case 'live':
      return 'Live';
    case 'connecting':
      return 'Connecting';
    case 'reconnecting':
      return 'Reconnecting';
    case 'paused':
      return 'Paused';
    case 'stale':
      return `Stale since ${receivedAt === null ? 'the start' : clock(receivedAt)}`;
  }
}

function explanation({ status, refusal }: LiveState): string {
  if (refusal) return `Live updates are refused: ${refusal}. Pages ask again every 5 s.`;
  switch (status) {
    case 'live':
      return 'Figures follow the server within a second. Press to pause (p).';
    case 'connecting':
      return 'The live connection is being opened.';
    case 'reconnecting':
      return 'The live connection was lost; it is being opened again. Meanwhile pages ask every 5 s.';
    case 'paused':
      return 'Figures stand still so that you can read them. Press to go on (p).';
    case 'stale':
      return 'Neither the live connection nor the server answers. What you see is of that time.';
  }
}

export function LivePill() {
  const connection = useLiveConnection();
  const state = useLiveStatus();
  const paused = state.status === 'paused';
  const text = words(state);
  return (
    <Tooltip label={explanation(state)}>
      <UnstyledButton
        className={clsx(classes.pill, classes[state.status])}
        aria-pressed={paused}
        aria-description={paused ? 'Press to resume live updates' : 'Press to pause live updates'}
        onClick={() => connection.setPaused(!paused)}
      >
        <span className={classes.dot} aria-hidden />
        <span aria-live="polite">{text}</span>
        {paused ? <IconPlayerPlay size={13} aria-hidden /> : <IconPlayerPause size={13} aria-hidden />}
      </UnstyledButton>
    </Tooltip>
  );
}
