/** /admin: where an administrator looks first. */
import { Page, Section } from '../../../parts/Page';
import { Loaded } from '../../../parts/states';
import { useNavigate } from 'react-router';
import { useMetrics } from '../requests/load';
import { volumeBars } from '../requests/wire';
import { Bars, BY_SOURCE } from '../../../parts/Bars';
import { count } from '../../../parts/format';
import css from '../../../parts/parts.module.css';
import { useOverview } from './load';
import { OverviewView } from './view';

export function Component() {
  const overview = useOverview();
  const metrics = useMetrics('24h');
  const navigate = useNavigate();
  const window = metrics.data?.windows[0];
  return (
    <Page title="Deployment" lead="What runs, what waits, and what wants attention. Read again every five seconds.">
      <Loaded query={overview}>{(found) => <OverviewView overview={found} />}</Loaded>
      {window !== undefined && (
        <Section title="Requests, last 24 hours">
          <div className={css.card}>
            <Bars
              label="Requests by hour, last 24 hours"
              series={BY_SOURCE}
              bars={volumeBars(window)}
              tell={count}
              onPick={(start) => void navigate(`/admin/requests?window=24h&bar=${encodeURIComponent(start)}`)}
            />
          </div>
        </Section>
      )}
    </Page>
  );
}
