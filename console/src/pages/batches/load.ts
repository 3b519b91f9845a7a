/** Reading batches. What still moves is read again while the page is looked at. */
import { useQuery } from '@tanstack/react-query';

import { body, client } from '../../api/client';
import { type Batch, type Group, toBatch } from './wire';

export const PAGE = 20;
const AGAIN_MS = 4_000;

export interface Wanted {
  search: string;
  group: string;
  after: string | undefined;
}

export interface BatchPage {
  batches: Batch[];
  next: string | null;
}

export function useBatches(wanted: Wanted, limit: number = PAGE) {
  return useQuery({
    queryKey: ['batches', wanted, limit],
    queryFn: async (): Promise<BatchPage> => {
      const query = {
        limit,
        ...(wanted.search === '' ? {} : { search: wanted.search }),
        ...(wanted.group === '' ? {} : { group: wanted.group as Group }),
        ...(wanted.after === undefined ? {} : { after: wanted.after }),
      };
      const page = await body(client.GET('/user/batches', { params: { query } }));
      return { batches: page.data.map(toBatch), next: page.has_more ? (page.last_id ?? null) : null };
    },
    refetchInterval: (query) => (query.state.data?.batches.some((batch) => !batch.ended) === true ? AGAIN_MS : false),
  });
}
