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
      const from = startOfDay(wanted.from, 0);
      const to = startOfDay(wanted.to, 1);
      const query = {
        limit: PAGE,
        ...(wanted.action === '' ? {} : { action: wanted.action }),
        ...(wanted.account === '' ? {} : { account_id: wanted.account }),
        ...(wanted.actor === '' ? {} : { actor: wanted.actor }),
        ...(wanted.subject === '' ? {} : { subject: wanted.subject }),
        ...(from === undefined ? {} : { start_time: from }),
        ...(to === undefined ? {} : { end_time: to }),
        ...(wanted.after === undefined ? {} : { after: wanted.after }),
      };
      return body(client.GET('/admin/audit', { params: { query } }));
    },
  });
}

/** When a day begins in the viewer's zone, some days later; nothing where it is no day. */
function startOfDay(date: string, later: number): string | undefined {
  const [year = Number.NaN, month = Number.NaN, day = Number.NaN] = date.split('-').map(Number);
  const start = new Date(year, month - 1, day + later);
  return Number.isNaN(start.getTime()) ? undefined : start.toISOString();
}
