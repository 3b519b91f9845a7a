/** Reading the workers that have not ended. */
import { useQuery } from '@tanstack/react-query';

import { body, client } from '../../../api/client';

const AGAIN_MS = 5_000;

export function useWorkers() {
  return useQuery({
    queryKey: ['admin', 'workers'],
    queryFn: () => body(client.GET('/admin/workers', { params: { query: { limit: 200 } } })),
    refetchInterval: AGAIN_MS,
  });
}
