/** The one cache of what was read. What a second try cannot mend is not tried again. */
import { keepPreviousData, QueryClient } from '@tanstack/react-query';

import { ApiError } from './client';

const ONCE = new Set([400, 401, 403, 404, 409, 410, 413]);

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      placeholderData: keepPreviousData,
      retry: (failures, error) => failures < 3 && error instanceof ApiError && !ONCE.has(error.status),
    },
    mutations: { retry: false },
  },
});
