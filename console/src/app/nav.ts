/** The side navigation as data: what leads where, by which keys, and who sees it. Pages register here and in router.tsx. */
import {
  IconActivity,
  IconAdjustments,
  IconChartBar,
  IconCode,
  IconGauge,
  IconHistory,
  IconHome,
  IconKey,
  IconListDetails,
  IconRoute,
  IconServer,
  IconStack2,
  IconStack3,
  IconUsers,
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

const PARTS: readonly Part[] = [
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
  {
    label: 'Administration',
    places: [
      { to: '/admin', label: 'Deployment', icon: IconGauge, key: 'd', needs: 'admin' },
      { to: '/admin/batches', label: 'Everyone’s batches', icon: IconStack3, key: 'e', needs: 'admin' },
      { to: '/admin/batch-requests', label: 'Batch requests', icon: IconListDetails, key: 't', needs: 'admin' },
      { to: '/admin/requests', label: 'Recent requests', icon: IconActivity, key: 'r', needs: 'admin' },
      { to: '/admin/models', label: 'Models and routes', icon: IconRoute, key: 'm', needs: 'admin' },
      { to: '/admin/accounts', label: 'Accounts', icon: IconUsers, key: 'c', needs: 'admin' },
      { to: '/admin/configuration', label: 'Configuration', icon: IconAdjustments, key: 's', needs: 'admin' },
      { to: '/admin/workers', label: 'Workers', icon: IconServer, key: 'y', needs: 'admin' },
      { to: '/admin/audit', label: 'Audit log', icon: IconHistory, key: 'l', needs: 'admin' },
    ],
  },
];

export function visibleParts(sees: { batches: boolean; admin: boolean }): Part[] {
  return PARTS.map((part) => ({
    ...part,
    places: part.places.filter((place) => place.needs === undefined || sees[place.needs]),
  })).filter((part) => part.places.length > 0);
}
