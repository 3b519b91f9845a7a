/** /: the account at a glance. */
import { Page } from '../../parts/Page';
import { Loaded } from '../../parts/states';
import { useCapabilities, useSignedIn } from '../../session/load';
import { useBatches } from '../batches/load';
import { useUser } from '../keys/load';
import { useUsage } from '../usage/load';
import { Figures, FirstSteps, Latest } from './view';

export function Component() {
  const session = useSignedIn();
  const capabilities = useCapabilities();
  return (
    <Page title="Overview" lead={`Signed in as ${session.name}, role ${session.role}.`}>
      {capabilities.data?.status === 'disabled' ? <WithoutBatches /> : <WithBatches />}
    </Page>
  );
}

function WithBatches() {
  const user = useUser();
  const usage = useUsage(7);
  const batches = useBatches({ search: '', group: '', after: undefined });
  const running = useCapabilities().data?.in_use?.unfinished_batches ?? null;
  return (
    <>
      <Loaded query={user} rows={2}>
        {(found) => <Figures user={found} usage={usage.data} running={running} />}
      </Loaded>
      <Loaded query={batches}>
        {(page) => (page.batches.length === 0 ? <FirstSteps batches /> : <Latest batches={page.batches} />)}
      </Loaded>
    </>
  );
}

function WithoutBatches() {
  const user = useUser();
  const usage = useUsage(7);
  return (
    <>
      <Loaded query={user} rows={2}>
        {(found) => <Figures user={found} usage={usage.data} running={null} />}
      </Loaded>
      <FirstSteps batches={false} />
    </>
  );
}
