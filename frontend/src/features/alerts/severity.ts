import type { Alert, AlertsPicture, Severity } from '../../api/types';
import type { Tone } from '../../components/status/StatusBadge';
import { duration, plural, share } from '../../lib/format';

export const SEVERITIES: Record<Severity, { tone: Tone; word: string; hint: string }> = {
  critical: { tone: 'critical', word: 'Critical', hint: 'Somebody must look now.' },
  warning: { tone: 'warn', word: 'Warning', hint: 'Somebody must look today.' },
  info: { tone: 'info', word: 'Info', hint: 'To be seen at the next occasion.' },
};

/** The most severe of what fires; null while nothing does. */
export function worst({ counts }: AlertsPicture): Severity | null {
  return (['critical', 'warning', 'info'] as const).find((severity) => counts[severity] > 0) ?? null;
}

export function total({ counts }: AlertsPicture): number {
  return counts.critical + counts.warning + counts.info;
}

/** What the bell says: how many fire, and how many of them of which severity. */
export function bellWords(picture: AlertsPicture | undefined): string {
  if (!picture) return 'Alerts: not known';
  if (total(picture) === 0) return 'Alerts: none is firing';
  const parts = (['critical', 'warning', 'info'] as const)
    .filter((severity) => picture.counts[severity] > 0)
    .map((severity) => `${picture.counts[severity]} ${severity}`);
  return `${plural(total(picture), 'alert')} firing: ${parts.join(', ')}`;
}

/** "storage_nearly_full" → "Storage nearly full". */
export function ruleTitle(rule: string): string {
  const words = rule.replaceAll(/[_.-]+/g, ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** A finding's figure in its unit; empty where it has none worth showing. */
export function figureOf({ value, unit }: Pick<Alert, 'value' | 'unit'>): string {
  if (value === null || !unit) return '';
  if (unit === 'ratio') return share(value);
  if (unit === 'seconds') return duration(value);
  return plural(value, unit.replace(/s$/, ''), unit);
}

/** Where the subject of an alert is looked at; null where it has no page. */
export function subjectPage({ subject_kind: kind }: Pick<Alert, 'subject_kind'>): '/storages/$name' | '/groups/$name' | null {
  if (kind === 'storage') return '/storages/$name';
  return kind === 'instance_group' ? '/groups/$name' : null;
}
