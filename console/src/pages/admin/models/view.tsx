/** A card for each model: what it is, what it does now, its Batch Concurrency, its routes. */
import { useEffect, useRef } from 'react';

import { compact, count } from '../../../parts/format';
import css from '../../../parts/parts.module.css';
import { Time } from '../../../parts/Time';
import admin from '../admin.module.css';
import { EditNumber } from '../EditNumber';
import { reasonWord } from '../overview/wire';
import { type RouteCommands, Routes } from './Routes';
import { type BatchWork, type ModelState, pricesOf } from './wire';

/** Give a model a Batch Concurrency of its own; null takes it away. */
export type CapCommand = (model: string, cap: number | null) => Promise<unknown>;

export function ModelCard(props: { state: ModelState; target: boolean; cap: CapCommand; routes: RouteCommands }) {
  const { model, work } = props.state;
  const card = useRef<HTMLElement>(null);
  useEffect(() => {
    if (props.target) card.current?.scrollIntoView({ block: 'start' });
  }, [props.target]);
  const facts = [model.type, model.min_role === 'free' ? null : `for ${model.min_role} and above`, model.aliases.length === 0 ? null : `also ${model.aliases.join(', ')}`];
  return (
    <section className={admin.model} data-target={props.target} ref={card} aria-label={model.id}>
      <div className={admin.modelHead}>
        <div>
          <h2 className={admin.modelName}>{model.id}</h2>
          <div className={css.sub}>{facts.filter((fact) => fact !== null).join(' · ')}</div>
        </div>
        <div style={{ textAlign: 'right' }}>
          <div style={{ fontSize: 13 }}>{pricesOf(model)}</div>
          <div className={css.sub}>USD per million tokens</div>
        </div>
      </div>
      {work !== null && <Work work={work} cap={props.cap} />}
      <Routes routes={model.routes} commands={props.routes} />
    </section>
  );
}

export function Work(props: { work: BatchWork; cap: CapCommand }) {
  const { work, cap } = props;
  const reason = reasonWord(work.blocked_reason);
  return (
    <div className={admin.modelFigures}>
      <Figure name="Interactive" value={count(work.interactive)} />
      <Figure name="Batch running" value={count(work.running)} />
      <Figure name="Batch queued" value={compact(work.queued)} />
      <Figure
        name="Batch Concurrency"
        value={
          <EditNumber
            label={`Batch Concurrency of ${work.model_id}`}
            shown={capWords(work)}
            value={work.max_concurrency}
            empty="As configured for all"
            help="Batch requests it runs at once, over all processes. Empty: BATCH_MODEL_CONCURRENCY. 0 pauses its batch work."
            onSave={(value) => cap(work.model_id, value)}
          />
        }
      />
      {reason !== null && (
        <Figure
          name="Why nothing starts"
          value={
            <span style={{ color: 'var(--tone-warn)' }}>
              {reason}
              {work.rest_until !== null && (
                <>
                  , until <Time at={work.rest_until} />
                </>
              )}
            </span>
          }
        />
      )}
    </div>
  );
}

function capWords(work: BatchWork): string {
  if (work.max_concurrency === null) return `${count(work.effective_max_concurrency)} (default)`;
  return work.max_concurrency === 0 ? 'Paused (0)' : count(work.max_concurrency);
}

function Figure(props: { name: string; value: React.ReactNode }) {
  return (
    <div>
      <div className={css.factName}>{props.name}</div>
      <div style={{ fontSize: 14, fontWeight: 500 }}>{props.value}</div>
    </div>
  );
}
