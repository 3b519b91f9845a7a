/** /usage: what the account used and spent. The days, the measure and the picked day are in the URL. */
import { Select } from '@mantine/core';

import { Page } from '../../parts/Page';
import { Loaded } from '../../parts/states';
import { useUrlState } from '../../parts/useUrlState';
import { useUser } from '../keys/load';
import { useUsage } from './load';
import { Spend, UsageView } from './view';

const SPANS = ['7', '30', '90'];

export function Component() {
  const url = useUrlState();
  const days = SPANS.includes(url.get('days')) ? url.get('days') : '30';
  const usage = useUsage(Number(days));
  const user = useUser();
  const picked = url.get('day') === '' ? null : url.get('day');
  return (
    <Page
      title="Usage and spend"
      lead="Days are UTC days. A request whose cost is not known is left out of the sums rather than counted as nothing."
      actions={
        <Select w={150} aria-label="Days" data={SPANS.map((value) => ({ value, label: `Last ${value} days` }))} value={days} allowDeselect={false} onChange={(value) => url.set({ days: value ?? '', day: '' })} />
      }
    >
      <Loaded query={user} rows={2}>
        {(found) => <Spend user={found} />}
      </Loaded>
      <Loaded query={usage}>
        {(found) => (
          <UsageView usage={found} measure={url.get('measure')} picked={picked} onMeasure={(measure) => url.set({ measure })} onPick={(day) => url.set({ day: day ?? '' })} />
        )}
      </Loaded>
    </Page>
  );
}
