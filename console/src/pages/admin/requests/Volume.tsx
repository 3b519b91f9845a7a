/** Request volume: a card for each window, and the bars of the one that is looked at, batch work stacked on top. */
import { Bars, BY_SOURCE } from '../../../parts/Bars';
import { compact, count } from '../../../parts/format';
import css from '../../../parts/parts.module.css';
import admin from '../admin.module.css';
import { volumeBars, type Window, WINDOWS } from './wire';

export function Volume(props: {
  windows: readonly Window[];
  shown: string;
  picked: string | null;
  onWindow: (window: string) => void;
  onPick: (start: string | null) => void;
}) {
  const { picked } = props;
  const shown = props.windows.find((window) => window.window === props.shown);
  return (
    <>
      <div className={admin.windows} role="group" aria-label="Request volume">
        {WINDOWS.map(({ value, label }) => {
          const window = props.windows.find((one) => one.window === value);
          return window === undefined ? null : <WindowCard key={value} label={label} window={window} shown={value === props.shown} onShow={() => props.onWindow(value)} />;
        })}
      </div>
      {shown !== undefined && (
        <div className={css.card} style={{ marginBottom: 20 }}>
          <Bars
            label="Request volume over time"
            series={BY_SOURCE}
            bars={volumeBars(shown)}
            tell={count}
            picked={picked}
            onPick={(start) => props.onPick(start === picked ? null : start)}
          />
        </div>
      )}
    </>
  );
}

function WindowCard(props: { label: string; window: Window; shown: boolean; onShow: () => void }) {
  const { window } = props;
  return (
    <button type="button" className={admin.window} aria-pressed={props.shown} onClick={props.onShow}>
      <div className={css.factName}>{props.label}</div>
      <div className={admin.windowFigure}>{compact(window.requests)}</div>
      <div className={css.sub}>{window.error_requests === 0 ? 'none failed' : `${compact(window.error_requests)} failed`}</div>
      <div className={css.sub}>+ {compact(window.batch_requests)} batch</div>
    </button>
  );
}
