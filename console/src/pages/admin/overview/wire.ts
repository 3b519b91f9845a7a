/** The deployment at a glance: what wants attention, worst first, and where to look for it. */
import type { Schemas } from '../../../api/client';
import { counted, span } from '../../../parts/format';
import type { Tone } from '../../../parts/states';
import { failureWords } from '../failures';

export type Overview = Schemas['Overview'];
export type Deployment = Schemas['Deployment'];
export type ModelLoad = Schemas['ModelLoad'];

export interface Concern {
  tone: Tone;
  title: string;
  more: string;
  to: string | null;
}

const SLOW_SEALING_SECONDS = 600;
const SLOW_WEBHOOK_SECONDS = 3_600;

const REASONS: Record<string, string> = {
  model_queued: 'Waits for its hardware',
  model_paused: 'Rests after failures',
  model_cap: 'At its cap',
  yielding: 'Gives way to interactive requests',
  no_route_up: 'No route is up',
};

export function reasonWord(reason: string | null): string | null {
  return reason === null ? null : (REASONS[reason] ?? reason);
}

export function concernsOf(overview: Overview): Concern[] {
  const { deployment } = overview;
  return [
    ...notOk(overview.checks, (name) => `Check “${name}” fails`),
    ...notOk(overview.processes, (place) => `Gateway process ${place} is not well`),
    ...(deployment === null ? [] : [...routeConcerns(deployment), ...modelConcerns(deployment), ...backlogConcerns(deployment.backlog)]),
  ];
}

function notOk(told: Record<string, string>, title: (name: string) => string): Concern[] {
  return Object.entries(told)
    .filter(([, words]) => words !== 'ok')
    .map(([name, words]) => ({ tone: 'bad', title: title(name), more: words, to: null }));
}

function routeConcerns({ open_circuits, routes_off }: Deployment): Concern[] {
  return [
    ...open_circuits.map(
      (route): Concern => ({
        tone: 'bad',
        title: `${route.model_id} fails on route ${route.route_id}`,
        more: `Its circuit is ${route.state.replace('_', ' ')} in ${counted(route.processes, 'process', 'processes')}${route.last_error === null ? '' : `: ${failureWords(route.last_error)}`}`,
        to: `/admin/models#${encodeURIComponent(route.model_id)}`,
      }),
    ),
    ...routes_off.map(
      (route): Concern => ({
        tone: 'quiet',
        title: `Route ${route.route_id} of ${route.model_id} is switched off`,
        more: 'An administrator did this; nothing new goes there',
        to: `/admin/models#${encodeURIComponent(route.model_id)}`,
      }),
    ),
  ];
}

function modelConcerns({ models, alerts, resting_models }: Deployment): Concern[] {
  const alerted = new Set(alerts.map((alert) => alert.model_id));
  const named = new Set([...alerted, ...resting_models]);
  return [...named].map((id) => {
    const load = models.find((model) => model.model_id === id);
    return {
      tone: alerted.has(id) ? 'bad' : 'warn',
      title: alerted.has(id) ? `Batch requests of ${id} wait too long` : `Batch work of ${id} rests`,
      more: [reasonWord(load?.blocked_reason ?? null), load === undefined ? null : `${counted(load.queued, 'request waits', 'requests wait')}`].filter((part) => part !== null).join(', '),
      to: `/admin/models#${encodeURIComponent(id)}`,
    };
  });
}

function backlogConcerns(backlog: Deployment['backlog']): Concern[] {
  if (backlog === null) return [{ tone: 'warn', title: 'The backlog could not be read lately', more: 'It is tried again every few seconds', to: null }];
  const found: (Concern | false)[] = [
    backlog.workers === 0 && { tone: 'bad', title: 'No worker runs', more: 'Nothing of any batch goes on until one does', to: '/admin/workers' },
    backlog.oldest_sealing_seconds > SLOW_SEALING_SECONDS && {
      tone: 'warn',
      title: 'Result files are late',
      more: `The oldest has waited for ${span(backlog.oldest_sealing_seconds)}`,
      to: '/admin/batches?status=finalizing',
    },
    backlog.oldest_webhook_seconds > SLOW_WEBHOOK_SECONDS && {
      tone: 'warn',
      title: 'Webhook events are late',
      more: `${counted(backlog.webhook_events, 'waits', 'wait')}, the oldest for ${span(backlog.oldest_webhook_seconds)}`,
      to: null,
    },
  ];
  return found.filter((concern) => concern !== false);
}
