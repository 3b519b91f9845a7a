/** How far a batch is: its bar, its pace, when it should end, and what stands in its way. */
import { Stack } from '@mantine/core';

import { count, relative, span } from '../../parts/format';
import { Money } from '../../parts/Money';
import { OutcomeBar, OutcomeLegend } from '../../parts/OutcomeBar';
import css from '../../parts/parts.module.css';
import { Note } from '../../parts/states';
import { Status } from '../../parts/Status';
import { useNow } from '../../parts/useNow';
import { type Batch, GROUPS } from '../batches/wire';
import own from './batch.module.css';

export function ProgressView(props: { batch: Batch; rate: number | null }) {
  const { batch, rate } = props;
  const { object } = batch;
  return (
    <Stack gap="sm">
      <div className={own.hero}>
        <div className={own.heroTop}>
          <div aria-live="polite">
            <Status {...GROUPS[batch.group]} note={batch.note} live={!batch.ended} />
          </div>
          <div className={own.pace}>
            <Figure name="Requests" value={`${count(batch.counts.total - batch.waiting)} of ${count(batch.counts.total)}`} />
            {!batch.ended && <Figure name="Rate" value={rate === null ? '–' : paceOf(rate)} />}
            {!batch.ended && <Eta at={object.estimated_completion_at ?? null} />}
            {batch.ended && <Figure name="Took" value={span(endOf(batch) - object.created_at)} />}
            <Figure name="Known cost" value={<Money usd={object.cost_usd} unknown={object.cost_unknown_attempts} />} />
          </div>
        </div>
        <OutcomeBar total={batch.counts.total} outcomes={batch.outcomes} tall />
        <div style={{ marginTop: 12 }}>
          <OutcomeLegend outcomes={batch.outcomes} waiting={batch.waiting} />
        </div>
      </div>
      {object.finishes_in_time === false && (
        <Note tone="warn" role="status">
          At this pace the window closes first: what has not started by then expires, and finished requests keep their results.
        </Note>
      )}
      {object.error !== null && object.error !== undefined && (
        <Note tone="bad" role="alert">
          {object.error.message} ({object.error.code})
        </Note>
      )}
    </Stack>
  );
}

function Figure(props: { name: string; value: React.ReactNode }) {
  return (
    <div>
      <div className={css.factName}>{props.name}</div>
      <div style={{ fontWeight: 600, fontSize: 15 }}>{props.value}</div>
    </div>
  );
}

function Eta(props: { at: number | null }) {
  const now = useNow(1_000);
  return <Figure name="Estimated end" value={props.at === null ? '–' : relative(new Date(props.at * 1000), now)} />;
}

function paceOf(rate: number): string {
  return rate >= 1 || rate === 0 ? `${rate.toFixed(1)} / s` : `${(rate * 60).toFixed(1)} / min`;
}

function endOf({ object }: Batch): number {
  return object.completed_at ?? object.failed_at ?? object.expired_at ?? object.cancelled_at ?? object.created_at;
}
