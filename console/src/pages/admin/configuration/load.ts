/** Reading the run-time settings, and changing them: all of a change or nothing of it. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';

import { body, client } from '../../../api/client';
import type { Draft } from './wire';

const SETTINGS = ['admin', 'config'];

export function useSettings() {
  return useQuery({ queryKey: SETTINGS, queryFn: () => body(client.GET('/admin/config')) });
}

/** Whether administrators may read what was said. */
export function useContentIsKept(): boolean {
  const settings = useSettings();
  return settings.data?.data.find((setting) => setting.name === 'DB_STORE_FULL_CONTENT')?.value === true;
}

export function useChangeSettings() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (draft: Draft) => body(client.PATCH('/admin/config', { body: { ...draft } })),
    onSuccess: (list) => cache.setQueryData(SETTINGS, list),
  });
}

export function useResetSetting() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (key: string) => body(client.DELETE('/admin/config/{key}', { params: { path: { key } } })),
    onSuccess: () => cache.invalidateQueries({ queryKey: SETTINGS }),
  });
}
