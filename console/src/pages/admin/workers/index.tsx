/** /admin/workers: who runs batch requests now. */
import { Page } from '../../../parts/Page';
import { Loaded } from '../../../parts/states';
import { useWorkers } from './load';
import { WorkersView } from './view';

export function Component() {
  const workers = useWorkers();
  return (
    <Page title="Workers" lead="Who runs batch requests now. One that falls silent loses what it holds to the others when its lease ends.">
      <Loaded query={workers}>{(page) => <WorkersView workers={page.data} />}</Loaded>
    </Page>
  );
}
