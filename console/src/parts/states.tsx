/** What stands where there is nothing to show: loading, nothing yet, something wrong. Each says what to do. */
import { Anchor, Button, Skeleton, Stack } from '@mantine/core';
import type { ReactNode } from 'react';
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

export function Problem(props: { error: Error; retry?: () => void }) {
  const status = props.error instanceof ApiError ? props.error.status : null;
  return (
    <div className={css.box} role="alert">
      <div className={css.boxTitle}>{problemTitle(status)}</div>
      <div>{props.error.message}</div>
      <div style={{ marginTop: 16, display: 'flex', gap: 16, justifyContent: 'center', alignItems: 'center' }}>
        {props.retry !== undefined && (
          <Button variant="default" onClick={props.retry}>
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

/** One of the three, or the thing itself. */
export function Loaded<T>(props: {
  query: { data: T | undefined; error: Error | null; refetch: () => unknown };
  rows?: number;
  children: (data: T) => ReactNode;
}) {
  const { data, error, refetch } = props.query;
  if (data !== undefined) return <>{props.children(data)}</>;
  if (error !== null) return <Problem error={error} retry={() => void refetch()} />;
  return <Loading {...(props.rows === undefined ? {} : { rows: props.rows })} />;
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
