/** Rows of the request log, as both of its pages show them. */
import { Link } from 'react-router';

import { type Column, DataTable, nextOf, Pager } from '../../../parts/DataTable';
import { FilterBar } from '../../../parts/FilterBar';
import { count, duration, usd } from '../../../parts/format';
import css from '../../../parts/parts.module.css';
import { Empty } from '../../../parts/states';
import { Status } from '../../../parts/Status';
import { Time } from '../../../parts/Time';
import type { UrlState } from '../../../parts/useUrlState';
import admin from '../admin.module.css';
import { type LogRow, outcomeOf, type Source, tokensOf } from './wire';

export interface LogPage {
  data: LogRow[];
  has_more: boolean;
  last_id: string | null;
}

export function LogTable(props: { page: LogPage; source: Source; url: UrlState; stale: boolean }) {
  const { page, url } = props;
  if (page.data.length === 0) return <Empty title="No request fits">Look further back, or take a filter away.</Empty>;
  return (
    <>
      <DataTable
        label="Requests"
        columns={props.source === 'batch' ? BATCH_COLUMNS : COLUMNS}
        rows={page.data}
        rowKey={(row) => row.id}
        rowTo={(row) => `/admin/requests/${row.id}`}
        stale={props.stale}
      />
      <Pager url={url} shown={page.data.length} order="newest first" next={nextOf(page)} />
    </>
  );
}

const WHEN: Column<LogRow> = {
  name: 'When',
  cell: (row) => (
    <Link to={`/admin/requests/${row.id}`} className={css.rowLink}>
      <Time at={row.at} ago />
    </Link>
  ),
};
const WHO: Column<LogRow> = {
  name: 'Account',
  cell: (row) => (
    <div className={css.clipped} title={row.account_name ?? row.account_id}>
      <div className={css.ellipsis}>{row.account_name ?? row.account_id}</div>
      <div className={`${css.sub} ${css.wide} ${css.ellipsis}`}>{row.key_name ?? row.key_id}</div>
    </div>
  ),
};
const WHAT: Column<LogRow> = {
  name: 'Model',
  wide: true,
  cell: (row) => (
    <div>
      {row.model}
      <div className={css.sub}>
        {row.target}
        {row.route !== null && ` · ${row.route}`}
        {row.streamed === true && ' · streamed'}
      </div>
    </div>
  ),
};
const OUTCOME: Column<LogRow> = { name: 'Outcome', cell: (row) => <Status {...outcomeOf(row)} /> };
const TOKENS: Column<LogRow> = {
  name: 'Tokens in → out',
  right: true,
  wide: true,
  cell: (row) => (
    <>
      {tokensOf(row)}
      {(row.cached_tokens ?? 0) > 0 && <div className={css.sub}>{count(row.cached_tokens ?? 0)} cached</div>}
    </>
  ),
};
const COST: Column<LogRow> = {
  name: 'Cost',
  right: true,
  wide: true,
  cell: (row) => (row.cost_usd === null ? <span className={css.sub}>unknown</span> : usd(row.cost_usd)),
};
const TOOK: Column<LogRow> = {
  name: 'Took',
  right: true,
  cell: (row) => (
    <>
      {row.total_ms === null ? '–' : duration(row.total_ms)}
      {row.first_token_ms !== null && <div className={css.sub}>first {duration(row.first_token_ms)}</div>}
    </>
  ),
};
const BATCH: Column<LogRow> = {
  name: 'Batch',
  wide: true,
  cell: (row) =>
    row.batch_id === null ? (
      '–'
    ) : (
      <div>
        <Link to={`/batches/${row.batch_id}`} className={`${admin.link} ${css.mono}`} title={row.batch_id}>
          {row.batch_id.slice(0, 14)}…
        </Link>
        <div className={css.sub}>try {row.attempt ?? '–'}</div>
      </div>
    ),
};

const COLUMNS = [WHEN, WHO, WHAT, OUTCOME, TOKENS, COST, TOOK];
const BATCH_COLUMNS = [WHEN, WHO, BATCH, WHAT, OUTCOME, TOKENS, COST, TOOK];

const OUTCOMES = [
  { value: '', label: 'All' },
  { value: 'none', label: 'Succeeded' },
  { value: 'any', label: 'Failed' },
];

/** Outcome, model, and what else the page narrows by. */
export function LogFilters(props: { url: UrlState; lookback: React.ReactNode; children?: React.ReactNode }) {
  return (
    <FilterBar url={props.url} choices={[{ name: 'error', label: 'Outcome', options: OUTCOMES }]}>
      {props.lookback}
      {props.children}
    </FilterBar>
  );
}
