import { Link } from '@tanstack/react-router';

import type { Alert } from '../../api/types';
import { Mono } from '../../components/values';
import { subjectPage } from './severity';

/** What an alert is about, as a link where it has a page. */
export function Subject({ alert, onFollow }: { alert: Alert; onFollow?: () => void }) {
  const page = subjectPage(alert);
  if (page === null) return <Mono>{alert.subject}</Mono>;
  return (
    <Link to={page} params={{ name: alert.subject }} {...(onFollow ? { onClick: onFollow } : {})}>
      <Mono>{alert.subject}</Mono>
    </Link>
  );
}
