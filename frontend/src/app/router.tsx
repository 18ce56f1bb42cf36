import type { QueryClient } from '@tanstack/react-query';
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from '@tanstack/react-router';

import { safeNext, sessionQuery } from '../api/session';
import { PageError, PageNotFound, PagePending } from '../components/PageStates';
import { parseAlertSearch, parseListSearch } from '../lib/listSearch';
import { AppShell } from '../shell/AppShell';
import { queryClient } from './queryClient';

/** The session as last heard of; asked for only when nothing was. */
const knownSession = (client: QueryClient) => client.query({ ...sessionQuery, staleTime: 'static' });

const root = createRootRouteWithContext<{ queryClient: QueryClient }>()({
  component: Outlet,
  notFoundComponent: PageNotFound,
});

const login = createRoute({
  getParentRoute: () => root,
  path: '/login',
  validateSearch: (raw: Record<string, unknown>): { next?: string } => {
    const next = safeNext(raw.next);
    return next === '/' ? {} : { next };
  },
  beforeLoad: async ({ context, search }) => {
    const session = await knownSession(context.queryClient).catch(() => null);
    if (session?.authenticated) throw redirect({ href: search.next ?? '/', replace: true });
  },
  component: lazyRouteComponent(() => import('../features/login/LoginPage'), 'LoginPage'),
});

const app = createRoute({
  getParentRoute: () => root,
  id: 'app',
  beforeLoad: async ({ context, location }) => {
    const session = await knownSession(context.queryClient);
    if (!session.authenticated) {
      const next = safeNext(location.href);
      throw redirect({ to: '/login', search: next === '/' ? {} : { next }, replace: true });
    }
  },
  component: AppShell,
});

const overview = createRoute({
  getParentRoute: () => app,
  path: '/',
  component: lazyRouteComponent(() => import('../features/overview/OverviewPage'), 'OverviewPage'),
});

const storages = createRoute({
  getParentRoute: () => app,
  path: '/storages',
  validateSearch: parseListSearch,
  component: lazyRouteComponent(() => import('../features/storages/StoragesPage'), 'StoragesPage'),
});

const storage = createRoute({
  getParentRoute: () => app,
  path: '/storages/$name',
  component: lazyRouteComponent(() => import('../features/storages/StoragePage'), 'StoragePage'),
});

// A name begins with a letter or digit, so none is shadowed.
const newStorage = createRoute({
  getParentRoute: () => app,
  path: '/storages/-/new',
  component: lazyRouteComponent(() => import('../features/storages/StorageFormPage'), 'NewStoragePage'),
});

const editStorage = createRoute({
  getParentRoute: () => app,
  path: '/storages/$name/edit',
  component: lazyRouteComponent(() => import('../features/storages/StorageFormPage'), 'EditStoragePage'),
});

const groups = createRoute({
  getParentRoute: () => app,
  path: '/groups',
  validateSearch: parseListSearch,
  component: lazyRouteComponent(() => import('../features/groups/GroupsPage'), 'GroupsPage'),
});

const group = createRoute({
  getParentRoute: () => app,
  path: '/groups/$name',
  component: lazyRouteComponent(() => import('../features/groups/GroupPage'), 'GroupPage'),
});

const instances = createRoute({
  getParentRoute: () => app,
  path: '/instances',
  validateSearch: parseListSearch,
  component: lazyRouteComponent(() => import('../features/instances/InstancesPage'), 'InstancesPage'),
});

const instance = createRoute({
  getParentRoute: () => app,
  path: '/instances/$instanceId',
  component: lazyRouteComponent(() => import('../features/instances/InstancePage'), 'InstancePage'),
});

const alerts = createRoute({
  getParentRoute: () => app,
  path: '/alerts',
  validateSearch: parseAlertSearch,
  component: lazyRouteComponent(() => import('../features/alerts/AlertsPage'), 'AlertsPage'),
});

export const router = createRouter({
  routeTree: root.addChildren([
    login,
    app.addChildren([
      overview,
      storages,
      storage,
      newStorage,
      editStorage,
      groups,
      group,
      instances,
      instance,
      alerts,
    ]),
  ]),
  context: { queryClient },
  defaultPreload: 'intent',
  defaultPendingComponent: PagePending,
  defaultErrorComponent: PageError,
  defaultNotFoundComponent: PageNotFound,
  scrollRestoration: true,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
