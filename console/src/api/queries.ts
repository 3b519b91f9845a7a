/**
 * The one cache of what was read. What a second try cannot mend is not tried again. The gateway may be on this machine or
 * in this network: it is asked although the browser believes that it is offline.
 */
import { keepPreviousData, QueryClient } from '@tanstack/react-query';

import { ApiError } from './client';

const ONCE = new Set([400, 401, 403, 404, 409, 410, 413]);

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      networkMode: 'always',
      staleTime: 2_000,
      placeholderData: keepPreviousData,
      retry: (failures, error) => failures < 3 && !(error instanceof ApiError && ONCE.has(error.status)),
    },
    mutations: { networkMode: 'always', retry: false },
  },
});
