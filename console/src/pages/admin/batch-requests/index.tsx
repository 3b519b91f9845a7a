/** /admin/batch-requests: what the batch workers ran, one row for each attempt. */
import { Link } from 'react-router';

import { Page } from '../../../parts/Page';
import { Loaded } from '../../../parts/states';
import { useUrlState } from '../../../parts/useUrlState';
import admin from '../admin.module.css';
import { Chip, Lookback, ModelChoice } from '../requests/Chips';
import { useModelIds, useRequestLog } from '../requests/load';
import { LogFilters, LogTable } from '../requests/Rows';
import { type Stretch, stretchWords, WINDOWS } from '../requests/wire';

export function Component() {
  const url = useUrlState();
  const batch = url.get('batch');
  // Of one batch all is meant, however old; else the last day, as on the page of direct requests.
  const fallback = WINDOWS[batch === '' ? 2 : 5] as (typeof WINDOWS)[number];
  const window = WINDOWS.find((one) => one.value === url.get('window')) ?? fallback;
  const stretch = stretchIn(url.get('from'), url.get('to'));
  const models = useModelIds();
  const log = useRequestLog({
    source: 'batch',
    lookbackHours: window.hours,
    stretch,
    batch,
    account: url.get('account'),
    model: url.get('model'),
    error: url.get('error'),
    after: url.after,
  });
  return (
    <Page title="Batch requests" lead="What the batch workers ran, newest first: one row for each attempt, so a request that was tried again has several.">
      <LogFilters
        url={url}
        lookback={
          stretch === null ? (
            <Lookback url={url} value={window.value} />
          ) : (
            <Chip name="Window" onClear={() => url.set({ from: '', to: '' })}>
              {stretchWords(stretch)}
            </Chip>
          )
        }
      >
        <ModelChoice url={url} models={models.data ?? []} />
        {batch !== '' && (
          <Chip name="Batch" onClear={() => url.set({ batch: '' })}>
            <Link className={admin.link} to={`/batches/${batch}`}>
              {batch.slice(0, 14)}…
            </Link>
          </Chip>
        )}
        {url.get('account') !== '' && (
          <Chip name="Account" onClear={() => url.set({ account: '' })}>
            {log.data?.data[0]?.account_name ?? url.get('account')}
          </Chip>
        )}
      </LogFilters>
      <Loaded query={log}>{(page) => <LogTable page={page} source="batch" url={url} stale={log.isPlaceholderData} />}</Loaded>
    </Page>
  );
}

function stretchIn(from: string, to: string): Stretch | null {
  const known = !Number.isNaN(Date.parse(from)) && !Number.isNaN(Date.parse(to));
  return known ? { from, to } : null;
}
