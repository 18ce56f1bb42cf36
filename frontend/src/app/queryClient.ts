import { QueryClient } from '@tanstack/react-query';

import { ApiError } from '../api/client';

/** Answers that a second try cannot change are not tried again. */
function worthRetrying(failures: number, error: Error): boolean {
  if (error instanceof ApiError && error.status >= 400 && error.status < 500) return false;
  return failures < 1;
}

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: { retry: worthRetrying, retryDelay: 400, staleTime: 2_000, refetchOnWindowFocus: true },
    mutations: { retry: false },
  },
});
