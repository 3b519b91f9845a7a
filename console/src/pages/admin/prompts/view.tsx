/** Stored requests, each to be opened to request and answer side by side. */
import { nextOf, Pager } from '../../../parts/DataTable';
import { Empty, Note } from '../../../parts/states';
import type { UrlState } from '../../../parts/useUrlState';
import type { Schemas } from '../../../api/client';
import batch from '../../batch/batch.module.css';
import { RequestRow } from '../../batch/Requests';

export function StoredRequests(props: {
  page: { data: Schemas['StoredObject'][]; has_more: boolean; last_id: string | null };
  url: UrlState;
}) {
  const { page, url } = props;
  return (
    <>
      <div style={{ marginBottom: 14 }}>
        <Note tone="quiet">That you looked is noted in the audit log, with the batch’s owner.</Note>
      </div>
      {page.data.length === 0 ? (
        <Empty title="No requests here">The batch has none, or they end before this page.</Empty>
      ) : (
        <div className={batch.requests}>
          {page.data.map((request) => (
            <RequestRow key={request.id} request={{ ...request, object: 'user_batch_request' }} contentShown />
          ))}
        </div>
      )}
      <Pager url={url} shown={page.data.length} order="in the order of submission" next={nextOf(page)} />
    </>
  );
}
