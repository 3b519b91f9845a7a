/** Requests by outcome as one bar; what is left of it has no outcome yet. */
import css from './parts.module.css';
import { count, counted } from './format';
import type { Tone } from './states';

export interface Outcome {
  word: string;
  tone: Tone;
  requests: number;
}

export function OutcomeBar(props: { total: number; outcomes: readonly Outcome[]; tall?: boolean }) {
  const told = props.outcomes.filter((outcome) => outcome.requests > 0);
  const words = told.map((outcome) => `${count(outcome.requests)} ${outcome.word}`).join(', ');
  return (
    <div
      className={props.tall === true ? `${css.bar} ${css.barTall}` : css.bar}
      role="img"
      aria-label={`Of ${counted(props.total, 'request')}: ${words || 'none has an outcome yet'}`}
    >
      {told.map((outcome) => (
        <span
          key={outcome.word}
          className={css.part}
          style={{
            flexBasis: `${(100 * outcome.requests) / Math.max(props.total, 1)}%`,
            minWidth: 2,
            background: `var(--fill-${outcome.tone})`,
          }}
        />
      ))}
    </div>
  );
}

export function OutcomeLegend(props: { outcomes: readonly Outcome[]; waiting?: number }) {
  const rows = props.outcomes.filter((outcome) => outcome.requests > 0);
  return (
    <div className={css.legend}>
      {rows.map((outcome) => (
        <span key={outcome.word} className={css.status}>
          <span className={css.dot} style={{ ['--dot' as string]: `var(--fill-${outcome.tone})` }} />
          {count(outcome.requests)} {outcome.word}
        </span>
      ))}
      {props.waiting !== undefined && props.waiting > 0 && (
        <span className={css.status}>
          <span className={css.dot} style={{ ['--dot' as string]: 'var(--fill-rest)' }} />
          {count(props.waiting)} not finished
        </span>
      )}
    </div>
  );
}
