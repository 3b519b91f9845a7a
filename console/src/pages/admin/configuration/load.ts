/** Reading the run-time settings, and changing them: all of a change or nothing of it. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';

import { body, client } from '../../../api/client';
import type { Draft } from './wire';

const AGAIN_MS = 10_000;
const SETTINGS = ['admin', 'config'];

/** `live`: read again while looked at, since another administrator may be at it. */
export function useSettings(live: boolean) {
  return useQuery({ queryKey: SETTINGS, queryFn: () => body(client.GET('/admin/config')), refetchInterval: live ? AGAIN_MS : false });
}

/** Whether administrators may read what was said. */
export function useContentIsKept(): boolean {
  const settings = useSettings(false);
  return settings.data?.data.find((setting) => setting.name === 'DB_STORE_FULL_CONTENT')?.value === true;
}

export function useChangeSettings() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (draft: Draft) => body(client.PATCH('/admin/config', { body: { ...draft } })),
    onSuccess: async (list) => {
      await cache.cancelQueries({ queryKey: SETTINGS }); // an older answer may be on its way
      cache.setQueryData(SETTINGS, list);
    },
  });
}

export function useResetSetting() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (key: string) => body(client.DELETE('/admin/config/{key}', { params: { path: { key } } })),
    onSuccess: () => cache.invalidateQueries({ queryKey: SETTINGS }),
  });
}
