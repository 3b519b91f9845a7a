/** Reading the account's keys, making and revoking them. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';

import { body, client } from '../../api/client';
import { bodyOf, type Draft } from './wire';

export function useUser() {
  return useQuery({ queryKey: ['user'], queryFn: () => body(client.GET('/user')) });
}

export function useKeys(after: string | undefined) {
  return useQuery({
    queryKey: ['keys', after],
    queryFn: () =>
      body(client.GET('/user/keys', { params: { query: { limit: 100, ...(after === undefined ? {} : { after }) } } })),
  });
}

export function useCreateKey() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (draft: Draft) => body(client.POST('/user/keys', { body: bodyOf(draft, new Date()) })),
    onSuccess: () => cache.invalidateQueries({ queryKey: ['keys'] }),
  });
}

export function useRevokeKey() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (id: string) => body(client.DELETE('/user/keys/{id}', { params: { path: { id } } })),
    onSuccess: () => cache.invalidateQueries({ queryKey: ['keys'] }),
  });
}
