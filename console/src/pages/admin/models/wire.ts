/** Models with their routes and their batch work; which of it is a choice and which the configuration's. */
import type { Schemas } from '../../../api/client';
import { usd } from '../../../parts/format';
import type { Tone } from '../../../parts/states';
import { failureWords } from '../failures';

export type Model = Schemas['AdminModel'];
export type ModelRoute = Schemas['ModelRoute'];
export type BatchWork = Schemas['BatchModelList']['data'][number];
export type Health = Schemas['RouteHealthObject'];

export interface ModelState {
  model: Model;
  work: BatchWork | null;
}

/** Every configured model with its batch work, and what batch work there is of models no longer configured. */
export function joined(models: readonly Model[], work: readonly BatchWork[]): { states: ModelState[]; orphans: BatchWork[] } {
  const byId = new Map(work.map((one) => [one.model_id, one]));
  const configured = new Set(models.map((model) => model.id));
  return {
    states: models.map((model) => ({ model, work: byId.get(model.id) ?? null })),
    orphans: work.filter((one) => !configured.has(one.model_id)),
  };
}

const CIRCUITS: Record<Health['state'], { tone: Tone; word: string }> = {
  closed: { tone: 'good', word: 'Healthy' },
  half_open: { tone: 'warn', word: 'On trial' },
  open: { tone: 'bad', word: 'Failing' },
  mixed: { tone: 'warn', word: 'Failing in some processes' },
};

export function healthOf(route: ModelRoute): { tone: Tone; word: string; note: string | null } {
  const { health } = route;
  if (!route.route.enabled) return { tone: 'quiet', word: 'Switched off', note: null };
  if (health === null) return { tone: 'quiet', word: 'Not used lately', note: null };
  const wrong = health.processes.find((process) => process.last_error !== null && process.state !== 'closed');
  const resting = health.processes.some((process) => process.keys_resting > 0);
  const error = wrong?.last_error ?? null;
  const note = error !== null ? failureWords(error) : resting ? 'some of its keys rest' : null;
  return { ...CIRCUITS[health.state], note };
}

export type Permission = 'default' | 'allow' | 'forbid';

export function permissionOf(choice: boolean | null): Permission {
  if (choice === null) return 'default';
  return choice ? 'allow' : 'forbid';
}

export function choiceOf(permission: Permission): boolean | null {
  return permission === 'default' ? null : permission === 'allow';
}

export function pricesOf({ prices, batch_price_factor }: Model): string {
  if (prices.input === 0 && prices.output === 0) return 'Free';
  const factor = batch_price_factor === 1 ? '' : `, batch × ${batch_price_factor}`;
  return `${usd(prices.input)} in, ${usd(prices.output)} out${factor}`;
}
