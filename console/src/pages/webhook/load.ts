/** Reading the webhook and its deliveries, setting it up, changing and removing it. `null`: there is none. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';

import { ApiError, body, client } from '../../api/client';
import type { Change, Webhook } from './wire';

const AGAIN_MS = 5_000;

export function useWebhook() {
  return useQuery({
    queryKey: ['webhook'],
    queryFn: async (): Promise<Webhook | null> => {
      try {
        return await body(client.GET('/v1/batch_webhook'));
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return null;
        throw error;
      }
    },
  });
}

export function useDeliveries(after: string | undefined, there: boolean) {
  return useQuery({
    queryKey: ['webhook', 'events', after],
    enabled: there,
    queryFn: () =>
      body(client.GET('/v1/batch_webhook/events', { params: { query: { limit: 20, ...(after === undefined ? {} : { after }) } } })),
    refetchInterval: (query) => (query.state.data?.data.some((one) => one.state === 'pending') === true ? AGAIN_MS : false),
  });
}

export function useSetWebhook() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (change: Partial<Change>) =>
      body(client.PUT('/v1/batch_webhook', { body: { url: null, enabled: null, rotate_secret: null, ...change } })),
    onSuccess: (webhook) => cache.setQueryData(['webhook'], { ...webhook, secret: undefined }),
  });
}

export function useRemoveWebhook() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: () => body(client.DELETE('/v1/batch_webhook')),
    onSuccess: () => cache.setQueryData(['webhook'], null),
  });
}
