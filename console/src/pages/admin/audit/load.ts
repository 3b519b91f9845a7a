/** Reading the audit log. */
import { useQuery } from '@tanstack/react-query';

import { body, client } from '../../../api/client';

const PAGE = 50;

export interface Wanted {
  action: string;
  account: string;
  actor: string;
  subject: string;
  from: string;
  to: string;
  after: string | undefined;
}

export function useAudit(wanted: Wanted) {
  return useQuery({
    queryKey: ['admin', 'audit', wanted],
    queryFn: () => {
      const query = {
        limit: PAGE,
        ...(wanted.action === '' ? {} : { action: wanted.action }),
        ...(wanted.account === '' ? {} : { account_id: wanted.account }),
        ...(wanted.actor === '' ? {} : { actor: wanted.actor }),
        ...(wanted.subject === '' ? {} : { subject: wanted.subject }),
        ...(wanted.from === '' ? {} : { start_time: startOfDay(wanted.from, 0) }),
        ...(wanted.to === '' ? {} : { end_time: startOfDay(wanted.to, 1) }),
        ...(wanted.after === undefined ? {} : { after: wanted.after }),
      };
      return body(client.GET('/admin/audit', { params: { query } }));
    },
  });
}

/** When a day begins in the viewer's zone, some days later. */
function startOfDay(date: string, later: number): string {
  const [year, month, day] = date.split('-').map(Number) as [number, number, number];
  return new Date(year, month - 1, day + later).toISOString();
}
