/** Reading the request log and its figures. The figures count what callers asked directly, batch work beside it. */
import { useQuery } from '@tanstack/react-query';

import { body, client } from '../../../api/client';
import type { Source, Stretch } from './wire';

const PAGE = 50;
const AGAIN_MS = 15_000;

export interface Wanted {
  source: Source;
  lookbackHours: number;
  stretch: Stretch | null;
  batch: string;
  account: string;
  model: string;
  error: string;
  after: string | undefined;
}

export function useRequestLog(wanted: Wanted) {
  return useQuery({
    queryKey: ['admin', 'requests', wanted],
    queryFn: () => {
      const { stretch } = wanted;
      const query = {
        source: wanted.source,
        limit: PAGE,
        ...(stretch === null ? { lookback_hours: wanted.lookbackHours } : { start_time: stretch.from, end_time: stretch.to }),
        ...(wanted.batch === '' ? {} : { batch_id: wanted.batch }),
        ...(wanted.account === '' ? {} : { account_id: wanted.account }),
        ...(wanted.model === '' ? {} : { model: wanted.model }),
        ...(wanted.error === '' ? {} : { error: wanted.error }),
        ...(wanted.after === undefined ? {} : { after: wanted.after }),
      };
      return body(client.GET('/admin/recent-requests', { params: { query } }));
    },
  });
}

type WindowName = '1h' | '6h' | '24h' | '7d' | '30d' | '90d';

/** One window, or with null all of them. */
export function useMetrics(window: WindowName | null) {
  return useQuery({
    queryKey: ['admin', 'request-metrics', window],
    queryFn: () => body(client.GET('/admin/request-metrics', { params: { query: { source: 'interactive' as const, ...(window === null ? {} : { window }) } } })),
    refetchInterval: AGAIN_MS,
  });
}

export function useModelIds() {
  return useQuery({
    queryKey: ['admin', 'models'],
    queryFn: () => body(client.GET('/admin/models')),
    select: (list) => list.data.map((model) => model.id),
    staleTime: 60_000,
  });
}
