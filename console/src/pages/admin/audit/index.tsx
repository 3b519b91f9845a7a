/** /admin/audit: what administrators did, filtered by the URL. */
import { Select, TextInput } from '@mantine/core';

import { FilterBar } from '../../../parts/FilterBar';
import { Page } from '../../../parts/Page';
import { Loaded } from '../../../parts/states';
import { useUrlState, type UrlState } from '../../../parts/useUrlState';
import { Chip } from '../requests/Chips';
import { useAudit } from './load';
import { AuditView } from './view';
import { KINDS, namesIn, shortSubject } from './wire';

const NAMED_FILTERS = [
  ['actor', 'By'],
  ['subject', 'To'],
  ['account', 'Account'],
] as const;

export function Component() {
  const url = useUrlState();
  const wanted = { action: url.get('action'), account: url.get('account'), actor: url.get('actor'), subject: url.get('subject'), from: url.get('from'), to: url.get('to') };
  const audit = useAudit({ ...wanted, after: url.after });
  const names = namesIn(audit.data?.data ?? []);
  return (
    <Page title="Audit log" lead="Every change, with who made it: noted in the transaction that makes it, and never changed.">
      <FilterBar url={url}>
        <Select
          aria-label="Kind"
          placeholder="Everything"
          w={170}
          clearable
          data={KINDS.map((kind) => ({ ...kind }))}
          value={wanted.action || null}
          onChange={(action) => url.set({ action: action ?? '' })}
        />
        <Day url={url} name="from" label="From" />
        <Day url={url} name="to" label="To" />
        {NAMED_FILTERS.filter(([name]) => wanted[name] !== '').map(([name, label]) => (
          <Chip key={name} name={label} onClear={() => url.set({ [name]: '' })}>
            {names.get(wanted[name]) ?? shortSubject(wanted[name])}
          </Chip>
        ))}
      </FilterBar>
      <Loaded query={audit}>{(page) => <AuditView page={page} url={url} stale={audit.isPlaceholderData} />}</Loaded>
    </Page>
  );
}

function Day(props: { url: UrlState; name: string; label: string }) {
  return (
    <TextInput
      type="date"
      aria-label={props.label}
      leftSection={<span style={{ fontSize: 12 }}>{props.label}</span>}
      leftSectionWidth={48}
      w={190}
      value={props.url.get(props.name)}
      onChange={(event) => props.url.set({ [props.name]: event.currentTarget.value })}
    />
  );
}
