/** /batches/:id: one batch, live until it has ended. */
import { useParams } from 'react-router';

import { Id } from '../../parts/Copy';
import { Page, Section } from '../../parts/Page';
import { Loaded } from '../../parts/states';
import { useUrlState } from '../../parts/useUrlState';
import type { WireBatch } from '../batches/wire';
import { Actions } from './Actions';
import { useBatch, useErrorGroups, useLiveBatch, useRequests } from './load';
import { RequestsView } from './Requests';
import { BatchView } from './view';

export function Component() {
  const { id } = useParams() as { id: string };
  const query = useBatch(id);
  if (query.data !== undefined) return <Shown key={id} wire={query.data} />;
  return (
    <Page title="Batch">
      <Loaded query={query}>{() => null}</Loaded>
    </Page>
  );
}

function Shown({ wire }: { wire: WireBatch }) {
  const url = useUrlState();
  const { batch, rate } = useLiveBatch(wire);
  const wanted = { search: url.get('search'), outcome: url.get('outcome'), after: url.after };
  const requests = useRequests(batch.id, wanted, !batch.ended);
  const errors = useErrorGroups(batch.id, batch.counts.failed + (batch.counts.cancelled ?? 0), !batch.ended);
  return (
    <Page title={batch.title} lead={<Id id={batch.id} long />} actions={<Actions batch={batch} />}>
      <BatchView batch={batch} rate={rate} errors={errors.data ?? []} onError={(outcome) => url.set({ outcome, search: '' })} />
      {batch.counts.total > 0 && (
        <Section title="Requests">
          <Loaded query={requests}>
            {(page) => <RequestsView page={page} url={url} contentShown={batch.contentShown} />}
          </Loaded>
        </Section>
      )}
    </Page>
  );
}
