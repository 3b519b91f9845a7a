/** Reading a batch's stored requests. Each page read is noted by the gateway, so nothing is read again by itself. */
import { useQuery } from '@tanstack/react-query';

import { body, client } from '../../../api/client';

export function useStoredRequests(batchId: string, after: string | undefined) {
  return useQuery({
    queryKey: ['admin', 'prompts', batchId, after],
    queryFn: () => {
      const query = { limit: 20, ...(after === undefined ? {} : { after }) };
      return body(client.GET('/admin/batch/jobs/{batch_id}/requests', { params: { path: { batch_id: batchId }, query } }));
    },
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });
}
