/** /admin/requests: what callers asked directly. A bar narrows the list to its stretch; all of it is in the URL. */
import { Link } from 'react-router';

import { Page } from '../../../parts/Page';
import { Loaded } from '../../../parts/states';
import { useUrlState } from '../../../parts/useUrlState';
import admin from '../admin.module.css';
import { Chip, Lookback, ModelChoice } from './Chips';
import { useMetrics, useModelIds, useRequestLog } from './load';
import { LogFilters, LogTable } from './Rows';
import { Volume } from './Volume';
import { stretchOf, stretchWords, WINDOWS } from './wire';

export function Component() {
  const url = useUrlState();
  const window = WINDOWS.find((one) => one.value === url.get('window')) ?? (WINDOWS[2] as (typeof WINDOWS)[number]);
  const metrics = useMetrics(null);
  const models = useModelIds();
  const picked = url.get('bar') || null;
  const stretch = picked === null ? null : stretchOf(window.barSeconds, picked);
  const log = useRequestLog({
    source: 'interactive',
    lookbackHours: window.hours,
    stretch,
    batch: '',
    account: url.get('account'),
    model: url.get('model'),
    error: url.get('error'),
    after: url.after,
  });
  return (
    <Page title="Recent requests" lead="What callers asked directly, newest first. Requests of batches are counted on top of the bars, and listed on their own page.">
      <Loaded query={metrics} rows={3}>
        {(found) => (
          <Volume
            windows={found.windows}
            shown={window.value}
            picked={stretch === null ? null : picked}
            onWindow={(value) => url.set({ window: value, bar: '' })}
            onPick={(start) => url.set({ bar: start ?? '' })}
          />
        )}
      </Loaded>
      <LogFilters
        url={url}
        lookback={
          stretch === null ? (
            <Lookback url={url} value={window.value} />
          ) : (
            <Chip name="Window" onClear={() => url.set({ bar: '' })}>
              {stretchWords(stretch)}
            </Chip>
          )
        }
      >
        <ModelChoice url={url} models={models.data ?? []} />
        {url.get('account') !== '' && (
          <Chip name="Account" onClear={() => url.set({ account: '' })}>
            {log.data?.data[0]?.account_name ?? url.get('account')}
          </Chip>
        )}
        {stretch !== null && (
          <Link className={admin.link} style={{ fontSize: 13 }} to={`/admin/batch-requests?from=${encodeURIComponent(stretch.from)}&to=${encodeURIComponent(stretch.to)}`}>
            Batch requests of this window
          </Link>
        )}
      </LogFilters>
      <Loaded query={log}>{(page) => <LogTable page={page} source="interactive" url={url} stale={log.isPlaceholderData} />}</Loaded>
    </Page>
  );
}
