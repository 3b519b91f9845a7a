/** Concerns first, then figures of the last hour, the models' load and what is unfinished. */
import { Stack } from '@mantine/core';
import { IconChevronRight } from '@tabler/icons-react';
import { Link } from 'react-router';

import { type Column, DataTable } from '../../../parts/DataTable';
import { compact, count, span, usd } from '../../../parts/format';
import { Cards, FigureCard } from '../../../parts/Meter';
import { Money } from '../../../parts/Money';
import { Facts, Section } from '../../../parts/Page';
import css from '../../../parts/parts.module.css';
import { Empty, Note } from '../../../parts/states';
import { Time } from '../../../parts/Time';
import admin from '../admin.module.css';
import { type Concern, concernsOf, type Deployment, type ModelLoad, type Overview, reasonWord } from './wire';

export function OverviewView({ overview }: { overview: Overview }) {
  const concerns = concernsOf(overview);
  const { deployment } = overview;
  return (
    <>
      <Concerns concerns={concerns} />
      {deployment !== null && <LastHour deployment={deployment} />}
      {deployment !== null && <Models models={deployment.models} />}
      {deployment?.backlog != null && <Backlog backlog={deployment.backlog} />}
    </>
  );
}

function Concerns({ concerns }: { concerns: readonly Concern[] }) {
  return (
    <div style={{ marginBottom: 20 }} role="status" aria-label="What wants attention">
      {concerns.length === 0 ? (
        <Note tone="good">Everything is in order: no circuit is open, nothing rests, nothing is late.</Note>
      ) : (
        <Stack gap={8}>
          {concerns.map((concern) => (
            <Note key={concern.title} tone={concern.tone}>
              <div className={admin.concern}>
                <div>
                  <div style={{ fontWeight: 600 }}>{concern.title}</div>
                  <div className={css.sub}>{concern.more}</div>
                </div>
                {concern.to !== null && (
                  <Link to={concern.to} className={admin.look} aria-label={`Look at: ${concern.title}`}>
                    Look <IconChevronRight size={14} aria-hidden />
                  </Link>
                )}
              </div>
            </Note>
          ))}
        </Stack>
      )}
    </div>
  );
}

function LastHour({ deployment }: { deployment: Deployment }) {
  const { interactive, batch } = deployment.traffic;
  const inFlight = deployment.models.reduce((sum, model) => sum + model.interactive_in_flight + model.batch_in_flight, 0);
  const queued = deployment.models.reduce((sum, model) => sum + model.queued, 0);
  const unknown = interactive.cost_unknown_requests + batch.cost_unknown_requests;
  return (
    <Cards>
      <FigureCard name="Interactive, last hour" value={compact(interactive.requests)} note={trafficNote(interactive)} />
      <FigureCard name="Batch, last hour" value={compact(batch.requests)} note={trafficNote(batch)} />
      <FigureCard
        name="Spent, last hour"
        value={<Money usd={interactive.cost_usd + batch.cost_usd} unknown={unknown} />}
        note={`${usd(batch.cost_usd)} of it by batches`}
      />
      <FigureCard name="In flight now" value={count(inFlight)} note={`${compact(queued)} batch ${queued === 1 ? 'request waits' : 'requests wait'}`} />
    </Cards>
  );
}

function trafficNote(traffic: Deployment['traffic']['batch']): string {
  const tokens = `${compact(traffic.prompt_tokens + traffic.completion_tokens)} tokens`;
  if (traffic.errors === 0) return `${tokens}, none failed`;
  return `${tokens}, ${count(traffic.errors)} failed (${((100 * traffic.errors) / traffic.requests).toFixed(1)} %)`;
}

const COLUMNS: readonly Column<ModelLoad>[] = [
  {
    name: 'Model',
    cell: (model) => (
      <Link className={css.rowLink} to={`/admin/models#${encodeURIComponent(model.model_id)}`}>
        {model.model_id}
      </Link>
    ),
  },
  { name: 'Interactive', right: true, cell: (model) => count(model.interactive_in_flight) },
  { name: 'Batch', right: true, cell: (model) => count(model.batch_in_flight) },
  { name: 'Waiting', right: true, cell: (model) => compact(model.queued) },
  { name: 'Oldest', right: true, wide: true, cell: (model) => (model.queued === 0 ? '–' : span(model.oldest_seconds)) },
  {
    name: 'Why it waits',
    wide: true,
    cell: (model) => (
      <>
        {reasonWord(model.blocked_reason) ?? '–'}
        {model.rest_until !== null && (
          <div className={css.sub}>
            until <Time at={model.rest_until} />
          </div>
        )}
      </>
    ),
  },
];

function Models({ models }: { models: readonly ModelLoad[] }) {
  return (
    <Section title="In flight by model">
      {models.length === 0 ? (
        <Empty title="No models yet">Name some in the models file, or start the gateway with --upstream.</Empty>
      ) : (
        <DataTable label="Load of each model" columns={COLUMNS} rows={models} rowKey={(model) => model.model_id} />
      )}
    </Section>
  );
}

function Backlog({ backlog }: { backlog: NonNullable<Deployment['backlog']> }) {
  const late = (seconds: number) => (seconds === 0 ? '' : `, the oldest for ${span(seconds)}`);
  return (
    <Section title="Batches and what follows them">
      <Facts
        facts={[
          ['Workers', <Link className={admin.link} to="/admin/workers">{count(backlog.workers)}</Link>],
          ['Batches being checked', count(backlog.validating)],
          ['Batches open', count(backlog.open)],
          ['Result files to write', `${count(backlog.sealing)}${late(backlog.oldest_sealing_seconds)}`],
          ['Webhook events to send', `${count(backlog.webhook_events)}${late(backlog.oldest_webhook_seconds)}`],
        ]}
      />
    </Section>
  );
}
