/** A batch's requests with their answers, searched and filtered; each opens to request and answer side by side. */
import { UnstyledButton } from '@mantine/core';
import { IconChevronDown, IconChevronRight } from '@tabler/icons-react';
import { useState } from 'react';

import { Code } from '../../parts/Copy';
import { Pager } from '../../parts/DataTable';
import { FilterBar } from '../../parts/FilterBar';
import { counted } from '../../parts/format';
import { Empty, Note, type Tone } from '../../parts/states';
import { Status } from '../../parts/Status';
import type { UrlState } from '../../parts/useUrlState';
import own from './batch.module.css';
import { type BatchRequest, OUTCOMES, pretty, spoken } from './wire';

const STATES: Record<string, { word: string; tone: Tone }> = {
  queued: { word: 'Waiting', tone: 'quiet' },
  running: { word: 'Running', tone: 'active' },
  completed: { word: 'Succeeded', tone: 'good' },
  failed: { word: 'Failed', tone: 'bad' },
  expired: { word: 'Expired', tone: 'warn' },
  cancelled: { word: 'Cancelled', tone: 'quiet' },
};

const CHOICES = [{ name: 'outcome', label: 'Outcome', options: OUTCOMES }];

export function RequestsView(props: {
  page: { data: BatchRequest[]; has_more: boolean; last_id: string | null };
  url: UrlState;
  contentShown: boolean;
}) {
  const { page, url } = props;
  return (
    <>
      <FilterBar url={url} search="Search by custom_id" choices={CHOICES} />
      {!props.contentShown && (
        <div style={{ marginBottom: 12 }}>
          <Note tone="quiet">This gateway keeps no prompts for administrators to read: only outcomes are shown.</Note>
        </div>
      )}
      {page.data.length === 0 ? (
        <Empty title="No request fits">Look for another part of the custom_id, or another outcome.</Empty>
      ) : (
        <div className={own.requests}>
          {page.data.map((request) => (
            <RequestRow key={request.id} request={request} contentShown={props.contentShown} />
          ))}
        </div>
      )}
      <Pager
        shown={`${page.data.length} shown, in the order of submission`}
        onBack={url.goBack}
        onNext={page.has_more && page.last_id !== null ? () => url.goAfter(page.last_id as string) : null}
      />
    </>
  );
}

export function RequestRow(props: { request: BatchRequest; contentShown: boolean }) {
  const { request } = props;
  const [open, setOpen] = useState(false);
  const state = STATES[request.status] ?? { word: request.status, tone: 'quiet' as const };
  const body = request.response?.body;
  const preview = request.error?.message ?? spoken(body) ?? '';
  return (
    <div className={open ? `${own.request} ${own.requestOpen}` : own.request}>
      <UnstyledButton className={own.requestHead} onClick={() => setOpen(!open)} aria-expanded={open}>
        <span className={own.clip} title={request.custom_id} style={{ fontWeight: 500 }}>
          {request.custom_id}
        </span>
        <Status {...state} />
        <span className={`${own.clip} ${own.preview}`} style={{ color: 'var(--mantine-color-dimmed)' }}>
          {preview}
        </span>
        {open ? <IconChevronDown size={15} aria-hidden /> : <IconChevronRight size={15} aria-hidden />}
      </UnstyledButton>
      {open && (
        <div className={own.pair}>
          {props.contentShown && (
            <div>
              <h3 className={own.pairTitle}>Request · {request.model}</h3>
              <Code text={pretty(request.request)} label={`Request of ${request.custom_id}`} wrapped />
            </div>
          )}
          <div>
            <h3 className={own.pairTitle}>{answerTitle(request)}</h3>
            <Answer request={request} />
          </div>
        </div>
      )}
    </div>
  );
}

function answerTitle(request: BatchRequest): string {
  return `${request.error === null ? 'Answer' : 'Error'} · ${counted(request.attempts, 'try', 'tries')}`;
}

function Answer(props: { request: BatchRequest }) {
  const { request } = props;
  const shown = request.response?.body ?? request.error;
  if (shown === null || shown === undefined) return <Note tone="quiet">There is no answer to show yet.</Note>;
  return <Code text={pretty(shown)} label={`Answer of ${request.custom_id}`} wrapped />;
}
