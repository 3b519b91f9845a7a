/** /admin/requests/:id: one row of the request log, with what was said where that is kept. */
import { useParams } from 'react-router';

import { Page } from '../../../parts/Page';
import { Loaded } from '../../../parts/states';
import { useRequest } from './load';
import { RequestView } from './view';

export function Component() {
  const { id } = useParams() as { id: string };
  const request = useRequest(id);
  return (
    <Page title="Request" lead="One call, as the request log has it.">
      <Loaded query={request}>{(found) => <RequestView request={found} />}</Loaded>
    </Page>
  );
}
