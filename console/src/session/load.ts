/** Signing in and out. The session is one query; `null` in it means that nobody is signed in. */
import { useMutation, useQuery } from '@tanstack/react-query';

import { ApiError, body, client, keepCsrfToken, whenSessionEnds } from '../api/client';
import { queries } from '../api/queries';
import type { Session } from './wire';

const SESSION = ['session'];
const AGAIN_MS = 5_000;
let wasSignedIn = false;
let accountId: string | null = null;

async function readSession(): Promise<Session | null> {
  try {
    return kept(await body(client.GET('/session')));
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return null;
    throw error;
  }
}

/** What another account read is not this one's to see, whether it signed in here or in another tab. */
function kept(session: Session): Session {
  if (session.account_id !== accountId) forgetAllButSession();
  accountId = session.account_id;
  keepCsrfToken(session.csrf_token ?? null);
  wasSignedIn = true;
  return session;
}

function forgetAllButSession(): void {
  queries.removeQueries({ predicate: (query) => query.queryKey[0] !== SESSION[0] });
}

whenSessionEnds(() => queries.setQueryData(SESSION, null));

/** Whether somebody was signed in since the page was loaded, so that the sign-in page can say that it ended. */
export function hadSession(): boolean {
  return wasSignedIn;
}

export function useSession() {
  return useQuery({ queryKey: SESSION, queryFn: readSession, staleTime: 60_000, refetchOnWindowFocus: 'always' });
}

/** The session on pages that are only there with one. */
export function useSignedIn(): Session {
  const { data } = useSession();
  if (data === null || data === undefined) throw new Error('This is shown only while somebody is signed in');
  return data;
}

export function useSetup() {
  return useQuery({ queryKey: ['setup'], queryFn: () => body(client.GET('/setup')) });
}

function entered(session: Session): void {
  forgetAllButSession();
  queries.setQueryData(SESSION, kept(session));
}

export function useSignIn() {
  return useMutation({
    mutationFn: (given: { name: string; password: string }) => body(client.POST('/session', { body: given })),
    onSuccess: (session) => entered(session as Session),
  });
}

export function useClaimSetup() {
  return useMutation({
    mutationFn: (given: { code: string; name: string; password: string }) => body(client.POST('/setup', { body: given })),
    onSuccess: (session) => entered(session as Session),
  });
}

/** The session was ended by whoever had it. */
export function leave(): void {
  wasSignedIn = false;
  sessionStorage.clear();
  keepCsrfToken(null);
  queries.setQueryData(SESSION, null);
  forgetAllButSession();
}

export function useSignOut() {
  return useMutation({
    mutationFn: async () => {
      await client.DELETE('/session');
    },
    onSettled: leave,
  });
}

export function useCapabilities() {
  return useQuery({
    queryKey: ['batch-capabilities'],
    queryFn: () => body(client.GET('/user/batch-capabilities')),
    staleTime: 30_000,
    refetchInterval: (query) => (query.state.data?.status === 'unavailable' ? AGAIN_MS : false),
  });
}
