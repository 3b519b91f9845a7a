/** Reading one account with its keys and its removal, and what an administrator may do with it. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';

import { ApiError, body, client } from '../../../api/client';
import type { Schemas } from '../../../api/client';
import { bodyOf, type Draft as KeyDraft } from '../../keys/wire';
import type { Purge } from '../accounts/wire';

const AGAIN_MS = 5_000;

export function useAccount(id: string) {
  return useQuery({
    queryKey: ['admin', 'account', id],
    queryFn: () => body(client.GET('/admin/accounts/{id}', { params: { path: { id } } })),
    placeholderData: undefined,
  });
}

export function useAccountKeys(id: string) {
  return useQuery({
    queryKey: ['admin', 'account', id, 'keys'],
    queryFn: () => body(client.GET('/admin/accounts/{id}/keys', { params: { path: { id }, query: { limit: 100 } } })),
    placeholderData: undefined,
  });
}

/** How far its removal is; null: nobody asked for one. */
export function usePurge(id: string) {
  return useQuery({
    queryKey: ['admin', 'purges', id],
    queryFn: async (): Promise<Purge | null> => {
      try {
        return await body(client.GET('/admin/purges/{id}', { params: { path: { id } } }));
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return null;
        throw error;
      }
    },
    placeholderData: undefined,
    refetchInterval: (query) => (query.state.data != null && query.state.data.state !== 'purged' ? AGAIN_MS : false),
  });
}

function useRefresh() {
  const cache = useQueryClient();
  return () => cache.invalidateQueries({ queryKey: ['admin'] });
}

export function useChangeAccount(id: string) {
  return useMutation({
    mutationFn: (change: Schemas['AccountChange']) => body(client.PATCH('/admin/accounts/{id}', { params: { path: { id } }, body: change })),
    onSuccess: useRefresh(),
  });
}

export function useDeleteAccount(id: string) {
  return useMutation({
    mutationFn: async (permanent: boolean) => {
      await client.DELETE('/admin/accounts/{id}', { params: { path: { id }, query: { permanent: permanent ? 'true' : 'false' } } });
    },
    onSuccess: useRefresh(),
  });
}

export function useCreateAccountKey(id: string) {
  return useMutation({
    mutationFn: (draft: KeyDraft) => body(client.POST('/admin/accounts/{id}/keys', { params: { path: { id } }, body: bodyOf(draft, new Date()) })),
    onSuccess: useRefresh(),
  });
}

export function useRevokeAccountKey() {
  return useMutation({
    mutationFn: (key: string) => body(client.DELETE('/admin/keys/{id}', { params: { path: { id: key } } })),
    onSuccess: useRefresh(),
  });
}

export function useKeyBudgets() {
  return useMutation({
    mutationFn: (given: { key: string; budgets: Schemas['Budgets'] }) => body(client.PATCH('/admin/keys/{id}', { params: { path: { id: given.key } }, body: given.budgets })),
    onSuccess: useRefresh(),
  });
}
