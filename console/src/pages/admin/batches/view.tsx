/** The list of everyone's batches. */
import { ActionIcon, Button, Menu, Select } from '@mantine/core';
import { IconAlertTriangle, IconDots } from '@tabler/icons-react';
import { Link } from 'react-router';

import { type Column, DataTable, Pager } from '../../../parts/DataTable';
import { FilterBar } from '../../../parts/FilterBar';
import { compact, count } from '../../../parts/format';
import { Money } from '../../../parts/Money';
import { OutcomeBar } from '../../../parts/OutcomeBar';
import css from '../../../parts/parts.module.css';
import { Empty } from '../../../parts/states';
import { Status } from '../../../parts/Status';
import { Time } from '../../../parts/Time';
import type { UrlState } from '../../../parts/useUrlState';
import { GROUPS } from '../../batches/wire';
import admin from '../admin.module.css';
import { Chip } from '../requests/Chips';
import type { OwnedPage } from './load';
import { cachedWords, type OwnedBatch, STATUSES } from './wire';

export interface BatchCommands {
  cancel: (batch: OwnedBatch) => void;
  prompts: boolean;
}

export function EveryonesView(props: { page: OwnedPage; url: UrlState; stale: boolean; commands: BatchCommands }) {
  const { page, url } = props;
  const account = url.get('account');
  return (
    <>
      <FilterBar url={url} search="Search by name or id">
        <Select
          aria-label="Status"
          placeholder="Any status"
          w={160}
          clearable
          data={STATUSES.map((one) => ({ ...one }))}
          value={url.get('status') || null}
          onChange={(status) => url.set({ status: status ?? '' })}
        />
        {account !== '' && (
          <Chip name="Account" onClear={() => url.set({ account: '' })}>
            {page.batches[0]?.owner ?? account}
          </Chip>
        )}
      </FilterBar>
      {page.batches.length === 0 ? (
        <Empty
          title="No batch fits"
          action={
            <Button variant="default" onClick={() => url.set({ search: '', status: '', account: '' })}>
              Show all batches
            </Button>
          }
        >
          Nobody has a batch of this kind.
        </Empty>
      ) : (
        <>
          <DataTable label="Everyone's batches" columns={columnsOf(props.commands)} rows={page.batches} rowKey={(batch) => batch.id} rowTo={(batch) => `/batches/${batch.id}`} stale={props.stale} />
          <Pager url={url} shown={page.batches.length} order="newest first" next={page.next} />
        </>
      )}
    </>
  );
}

function columnsOf(commands: BatchCommands): readonly Column<OwnedBatch>[] {
  return [
    {
      name: 'Batch',
      cell: (batch) => (
        <div className={css.clipped}>
          <Link to={`/batches/${batch.id}`} className={css.rowLink} title={batch.title}>
            {batch.named ? batch.title : <span className={css.mono}>{batch.id.slice(0, 14)}…</span>}
          </Link>
          <div className={css.sub} title={batch.email ?? undefined}>
            {batch.owner} · <Time at={batch.object.created_at} ago />
          </div>
        </div>
      ),
    },
    {
      name: 'Model',
      wide: true,
      cell: (batch) => (
        <div className={admin.nowrap}>
          {batch.model}
          <div className={css.sub}>
            {batch.target} · {batch.method}
          </div>
        </div>
      ),
    },
    { name: 'Status', cell: (batch) => <Status {...GROUPS[batch.group]} note={batch.note} live={!batch.ended} /> },
    {
      name: 'Requests',
      width: '13%',
      wide: true,
      cell: (batch) => (
        <div style={{ minWidth: 84 }}>
          <div style={{ marginBottom: 5, whiteSpace: 'nowrap' }}>
            {count(batch.counts.completed)} <span className={css.sub}>of {count(batch.counts.total)}</span>
          </div>
          <OutcomeBar total={batch.counts.total} outcomes={batch.outcomes} />
        </div>
      ),
    },
    { name: 'Ends', wide: true, cell: (batch) => <Ends batch={batch} /> },
    {
      name: 'Input',
      right: true,
      wide: true,
      cell: (batch) => (
        <>
          {compact(batch.object.usage.input_tokens)}
          <div className={css.sub}>{cachedWords(batch.object.usage.input_tokens, batch.cachedTokens)}</div>
        </>
      ),
    },
    { name: 'Known cost', right: true, wide: true, cell: (batch) => <Money usd={batch.object.cost_usd} unknown={batch.object.cost_unknown_attempts} /> },
    { name: '', right: true, width: 48, cell: (batch) => <BatchMenu batch={batch} commands={commands} /> },
  ];
}

function Ends({ batch }: { batch: OwnedBatch }) {
  if (batch.ended) return <span className={css.sub}>Ended</span>;
  if (batch.eta === null) return <span className={css.sub}>Not known yet</span>;
  return (
    <>
      <Time at={batch.eta} ago />
      {batch.misses && (
        <div className={admin.warning}>
          <IconAlertTriangle size={13} aria-hidden style={{ flex: 'none' }} /> The window closes first
        </div>
      )}
    </>
  );
}

function BatchMenu(props: { batch: OwnedBatch; commands: BatchCommands }) {
  const { batch, commands } = props;
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label={`What to do with ${batch.title}, ${batch.id}`}>
          <IconDots size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item component={Link} to={`/admin/batch-requests?batch=${batch.id}`}>
          Requests
        </Menu.Item>
        {commands.prompts && (
          <Menu.Item component={Link} to={`/admin/batches/${batch.id}`}>
            Prompts
          </Menu.Item>
        )}
        <Menu.Item component={Link} to={`/admin/accounts/${batch.accountId}`}>
          {batch.owner}
        </Menu.Item>
        {!batch.ended && batch.object.status !== 'cancelling' && (
          <Menu.Item color="red" onClick={() => commands.cancel(batch)}>
            Cancel
          </Menu.Item>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}
