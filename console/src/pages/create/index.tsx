/** /batches/new: a JSONL file becomes a batch in three steps; nothing runs until the last one is confirmed. */
import { Page } from '../../parts/Page';
import { Empty, Loaded, Note } from '../../parts/states';
import { useCapabilities } from '../../session/load';
import { Flow } from './Flow';
import type { Capabilities } from './wire';

export function Component() {
  const capabilities = useCapabilities();
  return (
    <Page title="Create batch" lead="From a JSONL file of chat or embeddings requests. Checking costs nothing, and nothing runs until you confirm.">
      <Loaded query={capabilities}>{(known) => <Allowed capabilities={known} />}</Loaded>
    </Page>
  );
}

function Allowed({ capabilities }: { capabilities: Capabilities }) {
  if (capabilities.status === 'disabled') return <Empty title="Batch inference is not available on this gateway">Its operator has switched it off (BATCH_ENABLED).</Empty>;
  if (capabilities.status === 'unavailable') return <Empty title="Batches cannot be read just now">This page tries again by itself.</Empty>;
  if (!capabilities.role_may_submit) return <Note tone="warn">Your role may not submit batches: that takes the role {capabilities.min_role}.</Note>;
  return <Flow capabilities={capabilities} />;
}
