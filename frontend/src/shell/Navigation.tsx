import { Link } from '@tanstack/react-router';

import { total } from '../features/alerts/severity';
import { count } from '../lib/format';
import { useFiringAlerts, useOverview } from '../live/LiveProvider';
import classes from './Navigation.module.css';
import { PLACES } from './places';

export function Navigation() {
  const { data } = useOverview();
  const counts: Record<string, string> = data
    ? {
        '/storages': `${count(data.storages_healthy)}/${count(data.storages_total)}`,
        '/groups': count(data.groups_total),
        '/instances': count(data.instances_total),
      }
    : {};
  const { data: alerts } = useFiringAlerts();
  if (alerts) counts['/alerts'] = count(total(alerts));
  const failing = data !== undefined && data.storages_healthy < data.storages_total;
  return (
    <nav className={classes.nav} aria-label="Main">
      <div className={classes.links}>
      {PLACES.map(({ to, label, key, Icon }) => (
        <Link
          key={to}
          to={to}
          className={classes.link}
          activeOptions={{ exact: to === '/', includeSearch: false }}
          title={`${label} (g ${key})`}
        >
          <Icon size={18} stroke={1.6} aria-hidden />
          <span className={classes.label}>{label}</span>
          {counts[to] && (
            <span className={classes.count} data-warn={(to === '/storages' && failing) || (to === '/alerts' && alerts && total(alerts) > 0) || undefined} aria-hidden>
              {counts[to]}
            </span>
          )}
        </Link>
      ))}
      </div>
    </nav>
  );
}
