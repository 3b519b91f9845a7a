/** /admin/batches/:id: a batch's stored requests with their answers, where the gateway keeps what is said. */
import { Link, useParams } from 'react-router';

import { ApiError } from '../../../api/client';
import { Id } from '../../../parts/Copy';
import { Page } from '../../../parts/Page';
import { Empty, Loaded } from '../../../parts/states';
import { useUrlState } from '../../../parts/useUrlState';
import admin from '../admin.module.css';
import { useStoredRequests } from './load';
import { StoredRequests } from './view';

export function Component() {
  const { id } = useParams() as { id: string };
  const url = useUrlState();
  const stored = useStoredRequests(id, url.after);
  const withheld = stored.error instanceof ApiError && stored.error.status === 403;
  return (
    <Page
      title="Prompts"
      lead={<Id id={id} long />}
      actions={
        <Link className={admin.link} to={`/batches/${id}`}>
          The batch
        </Link>
      }
    >
      {withheld ? (
        <Empty title="This gateway keeps no prompts for administrators">
          They are shown while DB_STORE_FULL_CONTENT is on; the batch’s owner always sees them.
        </Empty>
      ) : (
        <Loaded query={stored}>{(page) => <StoredRequests page={page} url={url} />}</Loaded>
      )}
    </Page>
  );
}
