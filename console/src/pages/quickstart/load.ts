/** The models the account may use. */
import { useQuery } from '@tanstack/react-query';

import { body, client } from '../../api/client';

export function useModels() {
  return useQuery({
    queryKey: ['models'],
    queryFn: async () => (await body(client.GET('/v1/models'))).data.map((model) => model.id),
    staleTime: 60_000,
  });
}
