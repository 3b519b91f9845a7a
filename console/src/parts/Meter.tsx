/** How much of an amount of money is used: a figure, what it is of, and a thin bar where there is a limit. */
import { usd } from './format';
import css from './parts.module.css';

export function SpendMeter(props: { name: string; spent: number; limit: number | null }) {
  const { limit, spent } = props;
  const part = limit === null ? 0 : limit === 0 ? 100 : Math.min(100, (100 * spent) / limit);
  const tone = part >= 100 ? 'bad' : part >= 80 ? 'warn' : 'active';
  return (
    <div className={css.card}>
      <div className={css.factName}>{props.name}</div>
      <div className={css.figure}>{usd(spent)}</div>
      <div className={css.sub} style={{ marginBottom: limit === null ? 0 : 8 }}>
        {limit === null ? 'No quota' : `of ${usd(limit)}`}
      </div>
      {limit !== null && (
        <div className={css.bar} role="img" aria-label={`${Math.round(part)} % of the quota is used`}>
          <span className={css.part} style={{ flexBasis: `${part}%`, background: `var(--fill-${tone})` }} />
        </div>
      )}
    </div>
  );
}

export function FigureCard(props: { name: string; value: React.ReactNode; note?: React.ReactNode }) {
  return (
    <div className={css.card}>
      <div className={css.factName}>{props.name}</div>
      <div className={css.figure}>{props.value}</div>
      {props.note !== undefined && <div className={css.sub}>{props.note}</div>}
    </div>
  );
}

export function Cards(props: { children: React.ReactNode }) {
  return <div className={css.cards}>{props.children}</div>;
}
