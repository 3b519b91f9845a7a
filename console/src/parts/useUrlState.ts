/** Filters and the page of a list, kept in the URL: shareable, and the browser's back button undoes them. */
import { useCallback, useEffect, useRef } from 'react';
import { useLocation, useNavigate, useSearchParams } from 'react-router';

export interface UrlState {
  get: (name: string) => string;
  /** Change some of the filters (an empty value takes one away), and go back to the first page. */
  set: (changes: Record<string, string>) => void;
  after: string | undefined;
  goAfter: (cursor: string) => void;
  goBack: (() => void) | null;
}

export function useUrlState(): UrlState {
  const [params, setParams] = useSearchParams();
  const navigate = useNavigate();
  const location = useLocation();
  const after = params.get('after') ?? undefined;
  // What the URL is about to be: two changes before it is drawn again must not undo each other.
  const wanted = useRef(params);
  useEffect(() => {
    wanted.current = params;
  }, [params]);
  const set = useCallback(
    (changes: Record<string, string>) => {
      const next = new URLSearchParams(wanted.current);
      next.delete('after');
      for (const [name, value] of Object.entries(changes)) {
        if (value === '') next.delete(name);
        else next.set(name, value);
      }
      wanted.current = next;
      setParams(next, { replace: true });
    },
    [setParams],
  );
  const goAfter = (cursor: string) => {
    const next = new URLSearchParams(params);
    next.set('after', cursor);
    setParams(next, { state: { paged: true } });
  };
  const first = () => set({});
  const paged = (location.state as { paged?: boolean } | null)?.paged === true;
  const goBack = after === undefined ? null : paged ? () => void navigate(-1) : first;
  return { get: (name) => params.get(name) ?? '', set, after, goAfter, goBack };
}
