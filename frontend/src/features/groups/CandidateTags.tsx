import { Tag } from '../../components/status/StatusBadge';
import classes from './groups.module.css';

/** Candidates in the order in which they are tried; a table row shows the first three. */
export function CandidateTags({ names }: { names: readonly string[] }) {
  if (names.length === 0) return <span className="muted">none</span>;
  const rest = names.length - 3;
  return (
    <span className={classes.tags} title={names.map((name, index) => `${index + 1}. ${name}`).join('\n')}>
      {names.slice(0, 3).map((name) => (
        <Tag key={name}>{name}</Tag>
      ))}
      {rest > 0 && <span className="muted">+{rest}</span>}
    </span>
  );
}
