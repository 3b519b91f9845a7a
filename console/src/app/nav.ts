/** The side navigation as data: what leads where, by which keys, and who sees it. Pages register here and in router.tsx. */
import {
  IconApi,
  IconChartBar,
  IconCode,
  IconHome,
  IconKey,
  IconStack2,
  IconWebhook,
  type TablerIcon,
} from '@tabler/icons-react';

export interface Place {
  to: string;
  label: string;
  icon: TablerIcon;
  /** Pressed after `g`, it leads here. */
  key: string;
  needs?: 'batches' | 'admin';
}

export interface Part {
  label: string | null;
  places: readonly Place[];
}

export const PARTS: readonly Part[] = [
  {
    label: null,
    places: [
      { to: '/', label: 'Overview', icon: IconHome, key: 'o' },
      { to: '/batches', label: 'Batches', icon: IconStack2, key: 'b', needs: 'batches' },
      { to: '/keys', label: 'API keys', icon: IconKey, key: 'k' },
      { to: '/usage', label: 'Usage and spend', icon: IconChartBar, key: 'u' },
      { to: '/webhook', label: 'Webhook', icon: IconWebhook, key: 'w', needs: 'batches' },
      { to: '/quickstart', label: 'Quickstart', icon: IconCode, key: 'q' },
    ],
  },
];

export const API_DESCRIPTION = { href: '/openapi.json', label: 'OpenAPI', icon: IconApi };

export function visibleParts(sees: { batches: boolean; admin: boolean }): Part[] {
  return PARTS.map((part) => ({
    ...part,
    places: part.places.filter((place) => place.needs === undefined || sees[place.needs]),
  })).filter((part) => part.places.length > 0);
}
