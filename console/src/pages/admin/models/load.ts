/** Reading models, routes and batch work, and what an administrator may choose about them. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';

import { body, client } from '../../../api/client';

const AGAIN_MS = 5_000;

export function useModels() {
  return useQuery({ queryKey: ['admin', 'models'], queryFn: () => body(client.GET('/admin/models')), refetchInterval: AGAIN_MS });
}

export function useBatchWork() {
  return useQuery({ queryKey: ['admin', 'batch-models'], queryFn: () => body(client.GET('/admin/batch/models')), refetchInterval: AGAIN_MS });
}

export interface RouteName {
  model_id: string;
  route_id: string;
}

function pathOf(name: RouteName): { params: { path: { model_and_route: string } } } {
  return { params: { path: { model_and_route: `${name.model_id}/${name.route_id}` } } };
}

export function useRouteChange() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (given: { route: RouteName; change: { enabled?: boolean | null; weight?: number | null } }) =>
      body(client.PATCH('/admin/routing/provider-routes/{model_and_route}', { ...pathOf(given.route), body: given.change })),
    onSuccess: () => cache.invalidateQueries({ queryKey: ['admin', 'models'] }),
  });
}

export function useBatchPermission() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (given: { route: RouteName; allowed: boolean | null }) =>
      body(client.PATCH('/admin/routing/provider-route-batch/{model_and_route}', { ...pathOf(given.route), body: { batch_allowed: given.allowed } })),
    onSuccess: () => cache.invalidateQueries({ queryKey: ['admin', 'models'] }),
  });
}

export function useBatchConcurrency() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (given: { model: string; cap: number | null }) =>
      body(client.PATCH('/admin/batch/models/{model_id}', { params: { path: { model_id: given.model } }, body: { max_concurrency: given.cap } })),
    onSuccess: () => cache.invalidateQueries({ queryKey: ['admin', 'batch-models'] }),
  });
}
