/** A status as a dot and a word, with a note under it where there is more to say. */
import css from './parts.module.css';
import type { Tone } from './states';

export function Status(props: { tone: Tone; word: string; note?: string | null; live?: boolean }) {
  return (
    <div>
      <span className={css.status}>
        <span
          className={props.live === true ? `${css.dot} ${css.dotLive}` : css.dot}
          style={{ ['--dot' as string]: `var(--fill-${props.tone})` }}
        />
        {props.word}
      </span>
      {props.note !== undefined && props.note !== null && <div className={css.sub}>{props.note}</div>}
    </div>
  );
}
