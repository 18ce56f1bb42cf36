import {
  IconAlertTriangleFilled,
  IconCircleCheckFilled,
  IconCircleDashed,
  IconCircleXFilled,
  IconInfoSquareRoundedFilled,
  IconPlayerPauseFilled,
} from '@tabler/icons-react';
import { clsx } from 'clsx';

import classes from './StatusBadge.module.css';

export type Tone = 'ok' | 'warn' | 'critical' | 'info' | 'off' | 'unknown';

/** Shape, colour and word say the same, so that any one of them is enough. Unknown is never green. */
const SHAPE: Record<Tone, typeof IconCircleDashed> = {
  ok: IconCircleCheckFilled,
  warn: IconAlertTriangleFilled,
  critical: IconCircleXFilled,
  info: IconInfoSquareRoundedFilled,
  off: IconPlayerPauseFilled,
  unknown: IconCircleDashed,
};

interface StatusBadgeProps {
  tone: Tone;
  children: string;
  /** One line on what the state means. */
  hint?: string;
  plain?: boolean;
}

export function StatusBadge({ tone, children, hint, plain = false }: StatusBadgeProps) {
  const Shape = SHAPE[tone];
  return (
    <span className={clsx(classes.badge, classes[tone], plain && classes.plain)} title={hint}>
      <Shape size={14} aria-hidden />
      {children}
    </span>
  );
}

export function Tag({ children, hint }: { children: string; hint?: string }) {
  return (
    <span className={classes.tag} title={hint}>
      {children}
    </span>
  );
}
