/** Reading an account's use. */
import { useQuery } from '@tanstack/react-query';

import { body, client } from '../../api/client';

export function useUsage(days: number) {
  return useQuery({
    queryKey: ['usage', days],
    queryFn: () => body(client.GET('/user/usage', { params: { query: { days } } })),
    staleTime: 15_000,
  });
}
