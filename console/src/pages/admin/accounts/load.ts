/** Reading accounts and removals, and making an account. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';

import { body, client } from '../../../api/client';
import { type Draft, newAccountOf, ROLES } from './wire';

const PAGE = 50;
const AGAIN_MS = 5_000;
const STATES = ['active', 'suspended', 'deleted'] as const;

export interface Wanted {
  search: string;
  role: string;
  state: string;
  after: string | undefined;
}

export function useAccounts(wanted: Wanted) {
  return useQuery({
    queryKey: ['admin', 'accounts', wanted],
    queryFn: () => {
      const role = ROLES.find((one) => one === wanted.role);
      const state = STATES.find((one) => one === wanted.state);
      const query = {
        limit: PAGE,
        ...(wanted.search === '' ? {} : { search: wanted.search }),
        ...(role === undefined ? {} : { role }),
        ...(state === undefined ? {} : { state }),
        ...(wanted.after === undefined ? {} : { after: wanted.after }),
      };
      return body(client.GET('/admin/accounts', { params: { query } }));
    },
  });
}

export function useCreateAccount() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (draft: Draft) => body(client.POST('/admin/accounts', { body: newAccountOf(draft) })),
    onSuccess: () => cache.invalidateQueries({ queryKey: ['admin', 'accounts'] }),
  });
}

/** The removals, the latest first; looked at again while one goes on. */
export function usePurges() {
  return useQuery({
    queryKey: ['admin', 'purges'],
    queryFn: () => body(client.GET('/admin/purges', { params: { query: { limit: 20 } } })),
    refetchInterval: (query) => (query.state.data?.data.some((purge) => purge.state !== 'purged') === true ? AGAIN_MS : false),
  });
}
