/** Reading one row of the request log. A look at content is noted by the gateway, so it is not repeated by itself. */
import { useQuery } from '@tanstack/react-query';

import { body, client } from '../../../api/client';

export function useRequest(id: string) {
  return useQuery({
    queryKey: ['admin', 'request', id],
    queryFn: () => body(client.GET('/admin/recent-requests/{id}', { params: { path: { id } } })),
    placeholderData: undefined,
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });
}
