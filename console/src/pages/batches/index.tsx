/** /batches: an account's batches, searched and filtered by the URL. */
import { Button, Group } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { Link } from 'react-router';

import { Page } from '../../parts/Page';
import { Empty, Loaded, Note } from '../../parts/states';
import { useUrlState } from '../../parts/useUrlState';
import { useCapabilities } from '../../session/load';
import { useBatches } from './load';
import { BatchesView } from './view';

export function Component() {
  const url = useUrlState();
  const capabilities = useCapabilities();
  const batches = useBatches({ search: url.get('search'), group: url.get('status'), after: url.after });
  const may = capabilities.data?.role_may_submit === true;
  return (
    <Page title="Batches" lead="Everything you submitted, newest first." actions={capabilities.data?.status === 'enabled' && <Actions may={may} />}>
      {capabilities.data?.status === 'disabled' ? (
        <Empty title="Batch inference is not available on this gateway">Its operator has switched it off (BATCH_ENABLED).</Empty>
      ) : (
        <>
          {capabilities.data?.status === 'unavailable' && (
            <div style={{ marginBottom: 16 }}>
              <Note tone="warn" role="status">
                Batches cannot be read just now; this page tries again.
              </Note>
            </div>
          )}
          {capabilities.data !== undefined && !may && (
            <div style={{ marginBottom: 16 }}>
              <Note tone="warn">
                Your role may not submit batches: that takes the role {capabilities.data.min_role}. What you have stays yours to
                look at, download, cancel and delete.
              </Note>
            </div>
          )}
          <Loaded query={batches} rows={6}>
            {(page) => <BatchesView page={page} url={url} stale={batches.isPlaceholderData} maySubmit={may} />}
          </Loaded>
        </>
      )}
    </Page>
  );
}

function Actions({ may }: { may: boolean }) {
  return (
    <Group gap="xs">
      <Button variant="default" component={Link} to="/webhook">
        Webhook
      </Button>
      {may && (
        <Button component={Link} to="/batches/new" leftSection={<IconPlus size={15} />}>
          Create batch
        </Button>
      )}
    </Group>
  );
}
