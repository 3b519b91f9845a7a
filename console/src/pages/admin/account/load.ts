/** Reading one account with its keys and its removal, and what an administrator may do with it. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';

import { ApiError, body, client } from '../../../api/client';
import type { Schemas } from '../../../api/client';
import { bodyOf, type Draft as KeyDraft } from '../../keys/wire';
import type { Purge } from '../accounts/wire';

type Account = Schemas['AccountDetail'];

const REMOVING_MS = 2_000;

async function orNull<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** A deleted one is only in the list of the deleted; null: there is none, or nothing of it is left. */
async function readAccount(id: string): Promise<Account | null> {
  const living = await orNull(body(client.GET('/admin/accounts/{id}', { params: { path: { id } } })));
  if (living !== null) return living;
  const deleted = await body(client.GET('/admin/accounts', { params: { query: { search: id, state: 'deleted' } } }));
  const found = deleted.data.find((account) => account.id === id);
  return found === undefined ? null : { ...found, sign_in: { password: false, identities: [] } };
}

/** Read again while it is being `removed`, until nothing is left of it. */
export function useAccount(id: string, removed: boolean) {
  return useQuery({
    queryKey: ['admin', 'account', id],
    queryFn: () => readAccount(id),
    placeholderData: undefined,
    refetchInterval: (query) => (removed && query.state.data !== null ? REMOVING_MS : false),
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
    queryFn: (): Promise<Purge | null> => orNull(body(client.GET('/admin/purges/{id}', { params: { path: { id } } }))),
    placeholderData: undefined,
    refetchInterval: (query) => (query.state.data != null && query.state.data.state !== 'purged' ? REMOVING_MS : false),
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
