import { IconBell, IconDatabase, IconLayoutDashboard, IconServer2, IconStack2 } from '@tabler/icons-react';

/** The pages of the navigation, with the second key of their `g` shortcut. */
export const PLACES = [
  { to: '/', label: 'Overview', key: 'o', Icon: IconLayoutDashboard },
  { to: '/storages', label: 'Storages', key: 's', Icon: IconDatabase },
  { to: '/groups', label: 'Instance groups', key: 'g', Icon: IconStack2 },
  { to: '/instances', label: 'Instances', key: 'i', Icon: IconServer2 },
  { to: '/alerts', label: 'Alerts', key: 'a', Icon: IconBell },
] as const;
