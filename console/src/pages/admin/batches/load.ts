/** Reading everyone's batches and their sums, and cancelling one. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';

import { body, client } from '../../../api/client';
import { type OwnedBatch, STATUSES, toOwned } from './wire';

const PAGE = 25;
const AGAIN_MS = 5_000;

export interface Wanted {
  search: string;
  status: string;
  account: string;
  after: string | undefined;
}

export interface OwnedPage {
  batches: OwnedBatch[];
  next: string | null;
}

export function useEveryonesBatches(wanted: Wanted) {
  return useQuery({
    queryKey: ['admin', 'batches', wanted],
    queryFn: async (): Promise<OwnedPage> => {
      const status = STATUSES.find((one) => one.value === wanted.status)?.value;
      const query = {
        limit: PAGE,
        ...(wanted.search === '' ? {} : { search: wanted.search }),
        ...(status === undefined ? {} : { status }),
        ...(wanted.account === '' ? {} : { account_id: wanted.account }),
        ...(wanted.after === undefined ? {} : { after: wanted.after }),
      };
      const page = await body(client.GET('/admin/batch/jobs', { params: { query } }));
      return { batches: page.data.map(toOwned), next: page.has_more ? page.last_id : null };
    },
    refetchInterval: (query) => (query.state.data?.batches.some((batch) => !batch.ended) === true ? AGAIN_MS : false),
  });
}

export function useSummary() {
  return useQuery({
    queryKey: ['admin', 'batch-summary'],
    queryFn: () => body(client.GET('/admin/batch/summary', { params: { query: { users: 100 } } })),
    refetchInterval: 3 * AGAIN_MS,
  });
}

export function useCancelJob() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (id: string) => body(client.POST('/admin/batch/jobs/{id}/cancel', { params: { path: { id } } })),
    onSuccess: () => cache.invalidateQueries({ queryKey: ['admin'] }),
  });
}
