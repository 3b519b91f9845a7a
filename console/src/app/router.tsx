/** Which address shows which page. Each page is its own piece of code, loaded when it is first opened. */
import { createBrowserRouter, useRouteError } from 'react-router';

import { Page } from '../parts/Page';
import { Empty, Problem } from '../parts/states';
import { Shell } from './Shell';

function Failed() {
  const error = useRouteError();
  return (
    <Page title="Something went wrong">
      <Problem error={problemOf(error)} retry={() => window.location.reload()} />
    </Page>
  );
}

/** A page's code that is not there is that of another version: the gateway was updated while this tab was open. */
function problemOf(error: unknown): Error {
  if (error instanceof TypeError && error.message.includes('import')) return new Error('A part of the console is missing: the gateway was updated or is restarting. Load the page again.');
  return error instanceof Error ? error : new Error('The page could not be shown.');
}

function Missing() {
  return (
    <Page title="Not found">
      <Empty title="There is no such page">The address may be mistyped, or of another version of the console.</Empty>
    </Page>
  );
}

const ADMINISTRATION = [
  { index: true, lazy: () => import('../pages/admin/overview') },
  { path: 'batches', lazy: () => import('../pages/admin/batches') },
  { path: 'batches/:id', lazy: () => import('../pages/admin/prompts') },
  { path: 'batch-requests', lazy: () => import('../pages/admin/batch-requests') },
  { path: 'requests', lazy: () => import('../pages/admin/requests') },
  { path: 'requests/:id', lazy: () => import('../pages/admin/request') },
  { path: 'models', lazy: () => import('../pages/admin/models') },
  { path: 'accounts', lazy: () => import('../pages/admin/accounts') },
  { path: 'accounts/:id', lazy: () => import('../pages/admin/account') },
  { path: 'configuration', lazy: () => import('../pages/admin/configuration') },
  { path: 'workers', lazy: () => import('../pages/admin/workers') },
  { path: 'audit', lazy: () => import('../pages/admin/audit') },
  { path: '*', Component: Missing },
];

export const router = createBrowserRouter(
  [
    {
      element: <Shell />,
      HydrateFallback: () => null,
      children: [
        {
          ErrorBoundary: Failed,
          children: [
            { index: true, lazy: () => import('../pages/overview') },
            { path: 'batches', lazy: () => import('../pages/batches') },
            { path: 'batches/new', lazy: () => import('../pages/create') },
            { path: 'batches/:id', lazy: () => import('../pages/batch') },
            { path: 'account', lazy: () => import('../pages/account') },
            { path: 'keys', lazy: () => import('../pages/keys') },
            { path: 'usage', lazy: () => import('../pages/usage') },
            { path: 'webhook', lazy: () => import('../pages/webhook') },
            { path: 'quickstart', lazy: () => import('../pages/quickstart') },
            { path: 'admin', lazy: () => import('../pages/admin/gate'), children: ADMINISTRATION },
            { path: '*', Component: Missing },
          ],
        },
      ],
    },
  ],
  { basename: '/console' },
);
