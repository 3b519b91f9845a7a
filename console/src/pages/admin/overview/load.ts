/** Reading the deployment's state, again every few seconds while it is looked at. */
import { useQuery } from '@tanstack/react-query';

import { body, client } from '../../../api/client';

const AGAIN_MS = 5_000;

export function useOverview() {
  return useQuery({
    queryKey: ['admin', 'overview'],
    queryFn: () => body(client.GET('/admin/overview')),
    refetchInterval: AGAIN_MS,
  });
}
