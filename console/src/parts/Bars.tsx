/** Bars over time, each stacked of series; the last series lies on top. A bar tells its figures when it is pointed at. */
import { Tooltip } from '@mantine/core';

import css from './parts.module.css';

export interface Series {
  name: string;
  fill: string;
}

/** Batch work lies on top of what callers asked directly. */
export const BY_SOURCE: readonly Series[] = [
  { name: 'Interactive', fill: 'var(--fill-active)' },
  { name: 'Batch', fill: 'var(--fill-batch)' },
];

export interface Bar {
  key: string;
  label: string;
  /** One value per series. */
  values: readonly number[];
}

export function Bars(props: {
  label: string;
  series: readonly Series[];
  bars: readonly Bar[];
  tell: (value: number) => string;
  picked?: string | null;
  onPick?: (key: string) => void;
}) {
  const { bars, series } = props;
  const most = Math.max(...bars.map((bar) => total(bar)), 0);
  return (
    <div>
      <div className={css.legend} style={{ justifyContent: 'flex-end', marginBottom: 8, fontSize: 12 }}>
        {series.map((one) => (
          <span key={one.name} className={css.status}>
            <span className={css.dot} style={{ ['--dot' as string]: one.fill }} />
            {one.name}
          </span>
        ))}
      </div>
      <div className={css.chart} role="group" aria-label={props.label}>
        {bars.map((bar) => (
          <Tooltip key={bar.key} label={<Told bar={bar} series={series} tell={props.tell} />} openDelay={0}>
            <BarColumn bar={bar} series={series} most={most} words={wordsOf(bar, series, props.tell)} picked={props.picked === bar.key} onPick={props.onPick} />
          </Tooltip>
        ))}
      </div>
      <div className={css.axis} aria-hidden>
        <span>{bars[0]?.label}</span>
        <span>{bars.at(-1)?.label}</span>
      </div>
    </div>
  );
}

function BarColumn(props: {
  bar: Bar;
  series: readonly Series[];
  most: number;
  words: string;
  picked: boolean;
  onPick: ((key: string) => void) | undefined;
  ref?: React.Ref<HTMLElement>;
}) {
  const { bar, series, most, words, picked, onPick, ref, ...hover } = props;
  const parts = series
    .map((one, at) => (
      <span key={one.name} style={{ height: most === 0 ? 0 : `${(100 * (bar.values[at] ?? 0)) / most}%`, background: one.fill }} />
    ))
    .reverse();
  if (onPick === undefined) {
    return (
      <div {...hover} ref={ref as React.Ref<HTMLDivElement>} className={css.stack} role="img" aria-label={words}>
        {parts}
      </div>
    );
  }
  return (
    <button {...hover} ref={ref as React.Ref<HTMLButtonElement>} type="button" className={css.stack} aria-label={words} aria-pressed={picked} data-picked={picked} onClick={() => onPick(bar.key)}>
      {parts}
    </button>
  );
}

function Told(props: { bar: Bar; series: readonly Series[]; tell: (value: number) => string }) {
  return (
    <div>
      <div style={{ fontWeight: 600 }}>{props.bar.label}</div>
      {props.series.map((one, at) => (
        <div key={one.name}>
          {one.name}: {props.tell(props.bar.values[at] ?? 0)}
        </div>
      ))}
    </div>
  );
}

function total(bar: Bar): number {
  return bar.values.reduce((sum, value) => sum + value, 0);
}

function wordsOf(bar: Bar, series: readonly Series[], tell: (value: number) => string): string {
  return `${bar.label}: ${series.map((one, at) => `${one.name} ${tell(bar.values[at] ?? 0)}`).join(', ')}`;
}
