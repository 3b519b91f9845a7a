/** The webhook and what was sent to it. */
import type { Schemas } from '../../api/client';
import type { Tone } from '../../parts/states';

export type Webhook = Schemas['WebhookObject'];
export type Delivery = Schemas['WebhookEvent'];
export type Change = Schemas['SetWebhook'];

export const STATES: Record<Delivery['state'], { word: string; tone: Tone }> = {
  pending: { word: 'Waiting', tone: 'active' },
  delivered: { word: 'Delivered', tone: 'good' },
  failed: { word: 'Failed', tone: 'bad' },
};
