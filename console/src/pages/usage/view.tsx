/** Use as bars by day, and as tables by model and by key. */
import { Anchor, SegmentedControl } from '@mantine/core';

import { Bars, BY_SOURCE } from '../../parts/Bars';
import { type Column, DataTable } from '../../parts/DataTable';
import { compact, count, usd } from '../../parts/format';
import { Cards, SpendMeter } from '../../parts/Meter';
import { Money } from '../../parts/Money';
import { Section } from '../../parts/Page';
import css from '../../parts/parts.module.css';
import { Empty } from '../../parts/states';
import type { Schemas } from '../../api/client';
import { barsOf, keyLines, type Line, type Measure, modelLines, type Usage } from './wire';

const MEASURES: readonly { value: Measure; label: string; tell: (value: number) => string }[] = [
  { value: 'cost', label: 'Cost', tell: usd },
  { value: 'requests', label: 'Requests', tell: count },
  { value: 'tokens', label: 'Tokens', tell: compact },
];

export function Spend({ user }: { user: Schemas['User'] }) {
  return (
    <Cards>
      <SpendMeter name="Spent today (UTC)" spent={user.spent_today_usd} limit={user.account.daily_quota_usd} />
      <SpendMeter name="Spent this month (UTC)" spent={user.spent_this_month_usd} limit={user.account.monthly_quota_usd} />
    </Cards>
  );
}

export function UsageView(props: { usage: Usage; measure: string; picked: string | null; onMeasure: (measure: string) => void; onPick: (day: string | null) => void }) {
  const { usage, picked } = props;
  const measure = MEASURES.find((one) => one.value === props.measure) ?? (MEASURES[0] as (typeof MEASURES)[number]);
  if (usage.models.length === 0 && usage.keys.length === 0) {
    return (
      <Section title="By day">
        <Empty title="Nothing was used in these days">What your keys and batches do appears here within seconds.</Empty>
      </Section>
    );
  }
  const pick = (day: string) => props.onPick(day === picked ? null : day);
  return (
    <>
      <Section
        title="By day"
        aside={<SegmentedControl size="xs" aria-label="What the bars show" data={MEASURES.map(({ value, label }) => ({ value, label }))} value={measure.value} onChange={props.onMeasure} />}
      >
        <div className={css.card}>
          <Bars label="Use by day (UTC)" series={BY_SOURCE} bars={barsOf(usage, measure.value)} tell={measure.tell} picked={picked} onPick={pick} />
        </div>
      </Section>
      <Section title="By model" aside={picked !== null && <Picked day={picked} onAll={() => props.onPick(null)} />}>
        <Lines label="Use by model" first="Model" lines={modelLines(usage, picked)} />
      </Section>
      <Section title="By API key" aside={picked !== null && <Picked day={picked} onAll={() => props.onPick(null)} />}>
        <Lines label="Use by API key" first="Key" lines={keyLines(usage, picked)} />
      </Section>
    </>
  );
}

function Picked(props: { day: string; onAll: () => void }) {
  return (
    <span className={css.sub}>
      on {props.day} ·{' '}
      <Anchor component="button" type="button" fz="xs" onClick={props.onAll}>
        show all days
      </Anchor>
    </span>
  );
}

function Lines(props: { label: string; first: string; lines: readonly Line[] }) {
  if (props.lines.length === 0) return <Empty title="Nothing on this day" />;
  const withErrors = props.lines.some((line) => line.errors !== null);
  const columns: readonly Column<Line>[] = [
    { name: props.first, cell: (line) => <span style={{ fontWeight: 500 }}>{line.name}</span> },
    { name: 'Requests', right: true, cell: (line) => count(line.requests) },
    ...(withErrors ? [{ name: 'Errors', right: true, wide: true, cell: (line: Line) => count(line.errors ?? 0) }] : []),
    { name: 'Input', right: true, wide: true, cell: (line) => compact(line.input) },
    ...(withErrors ? [{ name: 'of it cached', right: true, wide: true, cell: (line: Line) => compact(line.cached ?? 0) }] : []),
    { name: 'Output', right: true, wide: true, cell: (line) => compact(line.output) },
    { name: 'Known cost', right: true, cell: (line) => <Money usd={line.cost} unknown={line.unknown} /> },
  ];
  return <DataTable label={props.label} columns={columns} rows={props.lines} rowKey={(line) => line.name} />;
}
