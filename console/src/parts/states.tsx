/** What stands where there is nothing to show: loading, nothing yet, something wrong. Each says what to do. */
import { Anchor, Button, Skeleton, Stack } from '@mantine/core';
import { type ReactNode, useEffect } from 'react';
import { Link } from 'react-router';

import { ApiError } from '../api/client';
import css from './parts.module.css';

export function Loading(props: { rows?: number }) {
  return (
    <Stack gap={10} role="status" aria-label="Loading">
      {Array.from({ length: props.rows ?? 5 }, (_, row) => (
        <Skeleton key={row} height={36} radius={6} />
      ))}
    </Stack>
  );
}

export function Empty(props: { title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <div className={css.box}>
      <div className={css.boxTitle}>{props.title}</div>
      {props.children}
      {props.action !== undefined && <div style={{ marginTop: 16 }}>{props.action}</div>}
    </div>
  );
}

const AGAIN_MS = 5_000;

/** Whether it may pass by itself: the gateway is away, or too busy for the moment. */
function passes(error: Error | null): boolean {
  return error instanceof ApiError && (error.status === 0 || error.status === 429 || error.status >= 500);
}

/** Tries again every few seconds what may pass by itself; tells whether it does. */
function useAgain(error: Error | null, again: (() => unknown) | undefined): boolean {
  const waits = again !== undefined && passes(error);
  useEffect(() => {
    if (!waits) return undefined;
    const timer = window.setInterval(() => void again(), AGAIN_MS);
    return () => window.clearInterval(timer);
  }, [waits, again]);
  return waits;
}

export function Problem(props: { error: Error; retry?: () => unknown }) {
  const status = props.error instanceof ApiError ? props.error.status : null;
  const again = useAgain(props.error, props.retry);
  return (
    <div className={css.box} role="alert">
      <div className={css.boxTitle}>{problemTitle(status)}</div>
      <div>
        {props.error.message}
        {again && ' This page tries again by itself.'}
      </div>
      <div style={{ marginTop: 16, display: 'flex', gap: 16, justifyContent: 'center', alignItems: 'center' }}>
        {props.retry !== undefined && (
          <Button variant="default" onClick={() => void props.retry?.()}>
            Try again
          </Button>
        )}
        {status === 404 && (
          <Anchor component={Link} to="/" size="sm">
            Go to the overview
          </Anchor>
        )}
      </div>
    </div>
  );
}

function problemTitle(status: number | null): string {
  if (status === 0) return 'The gateway cannot be reached';
  if (status === 403) return 'Your role may not see this';
  if (status === 404) return 'There is nothing here';
  if (status === 503) return 'The gateway cannot answer just now';
  return 'This could not be loaded';
}

/** One of the three, or the thing itself; above that, when it could not be read anew. */
export function Loaded<T>(props: {
  query: { data: T | undefined; error: Error | null; refetch: () => unknown };
  rows?: number;
  children: (data: T) => ReactNode;
}) {
  const { data, error, refetch } = props.query;
  if (data !== undefined) {
    return (
      <>
        {error !== null && <Outdated error={error} retry={refetch} />}
        {props.children(data)}
      </>
    );
  }
  if (error !== null) return <Problem error={error} retry={refetch} />;
  return <Loading {...(props.rows === undefined ? {} : { rows: props.rows })} />;
}

function Outdated(props: { error: Error; retry: () => unknown }) {
  useAgain(props.error, props.retry);
  return (
    <div style={{ marginBottom: 16 }}>
      <Note tone="warn" role="status">
        What is shown here may be out of date. {props.error.message}{' '}
        <Anchor component="button" type="button" fz="inherit" underline="always" onClick={() => void props.retry()}>
          Try again
        </Anchor>
      </Note>
    </div>
  );
}

export type Tone = 'active' | 'good' | 'warn' | 'bad' | 'quiet';

/** A remark beside what it is about. */
export function Note(props: { tone: Tone; role?: 'alert' | 'status'; children: ReactNode }) {
  return (
    <div className={css.note} style={{ ['--note' as string]: `var(--fill-${props.tone})` }} role={props.role}>
      {props.children}
    </div>
  );
}
