/** /admin/batches: everyone's batches, their sums, and cancelling one. */
import { useState } from 'react';

import { Confirm } from '../../../parts/Confirm';
import { Page, Section } from '../../../parts/Page';
import { Loaded } from '../../../parts/states';
import { useUrlState } from '../../../parts/useUrlState';
import { useContentIsKept } from '../configuration/load';
import { useCancelJob, useEveryonesBatches, useSummary } from './load';
import { Totals } from './Totals';
import { EveryonesView } from './view';
import type { OwnedBatch } from './wire';

export function Component() {
  const url = useUrlState();
  const summary = useSummary();
  const batches = useEveryonesBatches({ search: url.get('search'), status: url.get('status'), account: url.get('account'), after: url.after });
  const prompts = useContentIsKept();
  const cancel = useCancelJob();
  const [doomed, setDoomed] = useState<OwnedBatch | null>(null);
  const close = () => {
    setDoomed(null);
    cancel.reset();
  };
  return (
    <Page title="Everyone’s batches" lead="All accounts together, newest first.">
      <Loaded query={summary} rows={3}>
        {(found) => <Totals summary={found} onOwner={(account) => url.set({ account })} />}
      </Loaded>
      <Section title="Batches">
        <Loaded query={batches} rows={6}>
          {(page) => <EveryonesView page={page} url={url} stale={batches.isPlaceholderData} commands={{ cancel: setDoomed, prompts }} />}
        </Loaded>
      </Section>
      <Confirm
        ask={
          doomed === null
            ? null
            : {
                title: `Cancel ${doomed.title}?`,
                children: `It is a batch of ${doomed.owner}. Nothing more of it starts; running requests still finish, and what has finished keeps its results. The audit log notes it.`,
                action: 'Cancel the batch',
                danger: true,
              }
        }
        busy={cancel.isPending}
        error={cancel.error}
        onClose={close}
        onConfirm={() => doomed !== null && cancel.mutate(doomed.id, { onSuccess: close })}
      />
    </Page>
  );
}
