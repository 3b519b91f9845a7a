/** The list of batches. */
import { Button } from '@mantine/core';
import { Link } from 'react-router';

import { type Column, DataTable, Pager } from '../../parts/DataTable';
import { FilterBar } from '../../parts/FilterBar';
import { compact, count } from '../../parts/format';
import { Money } from '../../parts/Money';
import { OutcomeBar } from '../../parts/OutcomeBar';
import css from '../../parts/parts.module.css';
import { Empty } from '../../parts/states';
import { Status } from '../../parts/Status';
import { Time } from '../../parts/Time';
import type { UrlState } from '../../parts/useUrlState';
import type { BatchPage } from './load';
import { type Batch, GROUPS } from './wire';

const FILTERS = [
  {
    name: 'status',
    label: 'Status',
    options: [{ value: '', label: 'All' }, ...Object.entries(GROUPS).map(([value, group]) => ({ value, label: group.word }))],
  },
];

export const COLUMNS: readonly Column<Batch>[] = [
  {
    name: 'Batch',
    cell: (batch) => (
      <div className={css.clipped}>
        <Link to={`/batches/${batch.id}`} className={css.rowLink} title={batch.title}>
          {batch.named ? batch.title : <span className={css.mono}>{shortId(batch.id)}</span>}
        </Link>
        <div className={css.sub}>
          <Time at={batch.object.created_at} ago />
          {batch.named && <span className={`${css.mono} ${css.wide}`}> · {shortId(batch.id)}</span>}
        </div>
      </div>
    ),
  },
  {
    name: 'Model',
    wide: true,
    cell: (batch) => (
      <div>
        <div style={{ whiteSpace: 'nowrap' }}>{batch.model}</div>
        <div className={css.sub} style={{ whiteSpace: 'nowrap' }}>
          {batch.target} · {batch.method}
        </div>
      </div>
    ),
  },
  {
    name: 'Status',
    cell: (batch) => <Status {...GROUPS[batch.group]} note={batch.note} live={!batch.ended} />,
  },
  {
    name: 'Requests',
    width: '15%',
    cell: (batch) => (
      <div style={{ minWidth: 84 }}>
        <div style={{ marginBottom: 5 }}>
          <span style={{ whiteSpace: 'nowrap' }}>
          {count(batch.counts.completed)} <span className={css.sub}>of {count(batch.counts.total)}</span>
          </span>
        </div>
        <OutcomeBar total={batch.counts.total} outcomes={batch.outcomes} />
      </div>
    ),
  },
  { name: 'Tokens', right: true, wide: true, cell: (batch) => compact(batch.object.usage.total_tokens) },
  {
    name: 'Known cost',
    right: true,
    wide: true,
    cell: (batch) => <Money usd={batch.object.cost_usd} unknown={batch.object.cost_unknown_attempts} />,
  },
];

function shortId(id: string): string {
  return `${id.slice(0, 14)}…`;
}

export function BatchesView(props: { page: BatchPage; url: UrlState; stale: boolean; maySubmit: boolean }) {
  const { page, url } = props;
  const narrowed = url.get('search') !== '' || url.get('status') !== '';
  return (
    <>
      <FilterBar url={url} search="Search by name or id" choices={FILTERS} />
      {page.batches.length === 0 ? (
        <Nothing narrowed={narrowed} maySubmit={props.maySubmit} onAll={() => url.set({ search: '', status: '' })} />
      ) : (
        <>
          <DataTable label="Batches" columns={COLUMNS} rows={page.batches} rowKey={(batch) => batch.id} rowTo={(batch) => `/batches/${batch.id}`} stale={props.stale} />
          <Pager url={url} shown={page.batches.length} order="newest first" next={page.next} />
        </>
      )}
    </>
  );
}

function Nothing(props: { narrowed: boolean; maySubmit: boolean; onAll: () => void }) {
  if (props.narrowed) {
    return (
      <Empty
        title="No batch fits"
        action={
          <Button variant="default" onClick={props.onAll}>
            Show all batches
          </Button>
        }
      >
        Look for another part of the name or the id, or take the filter away.
      </Empty>
    );
  }
  return (
    <Empty
      title="No batches yet"
      action={
        props.maySubmit ? (
          <Button component={Link} to="/batches/new">
            Create the first one
          </Button>
        ) : undefined
      }
    >
      A batch holds many requests, which run in the capacity that interactive requests leave free.
    </Empty>
  );
}
