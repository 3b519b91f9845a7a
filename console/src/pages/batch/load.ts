/** Reading one batch, following its progress, and what can be done with it. */
import { useDocumentVisibility } from '@mantine/hooks';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo, useState } from 'react';
import { useNavigate } from 'react-router';

import { body, client, refusal } from '../../api/client';
import { type Batch, isFinal, toBatch, type WireBatch } from '../batches/wire';
import { type OutcomeFilter, type Progress, withProgress } from './wire';

const PAGE = 20;
const AGAIN_MS = 4_000;

export function useBatch(id: string) {
  return useQuery({
    queryKey: ['batch', id],
    queryFn: () => body(client.GET('/user/batches/{id}', { params: { path: { id } } })),
    placeholderData: undefined,
  });
}

/**
 * The latest the stream told. A stream that breaks off is opened again by the browser, one that is refused by this, which
 * reads the batch anew. It is open only while the page is looked at: a browser has few connections for all its tabs.
 */
function useProgress(id: string, live: boolean): Progress | null {
  const cache = useQueryClient();
  const [progress, setProgress] = useState<Progress | null>(null);
  const [refused, setRefused] = useState(0);
  const seen = useDocumentVisibility() === 'visible';
  useEffect(() => {
    if (!live || !seen) return undefined;
    let again = 0;
    const stream = new EventSource(`/v1/batches/${encodeURIComponent(id)}/events`);
    stream.addEventListener('batch', (event: MessageEvent<string>) => setProgress(JSON.parse(event.data) as Progress));
    stream.addEventListener('done', () => {
      stream.close();
      void cache.invalidateQueries({ queryKey: ['batch', id] });
      void cache.invalidateQueries({ queryKey: ['batches'] });
    });
    stream.addEventListener('error', () => {
      if (stream.readyState !== EventSource.CLOSED) return;
      setProgress(null);
      void cache.invalidateQueries({ queryKey: ['batch', id] });
      again = window.setTimeout(() => setRefused((times) => times + 1), AGAIN_MS);
    });
    return () => {
      window.clearTimeout(again);
      stream.close();
    };
  }, [cache, id, live, seen, refused]);
  return progress;
}

/** The batch as last read, moved on by what the stream told since. */
export function useLiveBatch(wire: WireBatch): { batch: Batch; rate: number | null } {
  const progress = useProgress(wire.id, !isFinal(wire.batch.status));
  return useMemo(() => {
    const current = isFinal(wire.batch.status) ? null : progress;
    return { batch: toBatch({ ...wire, batch: withProgress(wire.batch, current) }), rate: current?.rate ?? null };
  }, [wire, progress]);
}

export interface RequestsWanted {
  search: string;
  outcome: string;
  after: string | undefined;
}

export function useRequests(id: string, wanted: RequestsWanted, live: boolean) {
  return useQuery({
    queryKey: ['batch', id, 'requests', wanted],
    refetchInterval: live ? AGAIN_MS : false,
    queryFn: async () => {
      const query = {
        limit: PAGE,
        ...(wanted.search === '' ? {} : { search: wanted.search }),
        ...(wanted.outcome === '' ? {} : { outcome: wanted.outcome as OutcomeFilter }),
        ...(wanted.after === undefined ? {} : { after: wanted.after }),
      };
      return body(client.GET('/user/batches/{id}/requests', { params: { path: { id }, query } }));
    },
  });
}

export function useErrorGroups(id: string, unsuccessful: number, live: boolean) {
  return useQuery({
    queryKey: ['batch', id, 'errors'],
    enabled: unsuccessful > 0,
    refetchInterval: live ? AGAIN_MS : false,
    queryFn: async () => (await body(client.GET('/user/batches/{id}/errors', { params: { path: { id } } }))).data,
  });
}

export function useCancel(id: string) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: () => body(client.POST('/v1/batches/{id}/cancel', { params: { path: { id } } })),
    onSuccess: () => cache.invalidateQueries({ queryKey: ['batch', id] }),
  });
}

export function useDelete(id: string) {
  const cache = useQueryClient();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: () => body(client.DELETE('/v1/batches/{id}', { params: { path: { id } } })),
    onSuccess: () => {
      cache.removeQueries({ queryKey: ['batch', id] });
      void cache.invalidateQueries({ queryKey: ['batches'] });
      void navigate('/batches', { replace: true });
    },
  });
}

/** One Idempotency-Key per press: a second try after a lost answer finds the batch of the first. */
export function useRetry(id: string) {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const [once] = useState(() => `console-retry-${id}-${crypto.getRandomValues(new Uint32Array(2)).join('-')}`);
  return useMutation({
    mutationFn: () =>
      body(client.POST('/v1/batches/{id}/retry', { params: { path: { id }, header: { 'Idempotency-Key': once } } })),
    onSuccess: (created) => {
      void cache.invalidateQueries({ queryKey: ['batches'] });
      void navigate(`/batches/${created.id}`);
    },
  });
}

/** Whether a file can be had, asked before the browser is sent to it: it would show a refusal as a page of JSON. */
export function useDownload() {
  return useMutation({
    mutationFn: async (path: string) => {
      const answer = await fetch(path, { method: 'HEAD' });
      if (!answer.ok) throw await refusal(await fetch(path));
      const link = document.createElement('a');
      link.href = path;
      link.download = '';
      link.click();
    },
  });
}
