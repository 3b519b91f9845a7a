/** Which address shows which page. Each page is its own piece of code, loaded when it is first opened. */
import { createBrowserRouter, useRouteError } from 'react-router';

import { Page } from '../parts/Page';
import { Empty, Problem } from '../parts/states';
import { Shell } from './Shell';

function Failed() {
  const error = useRouteError();
  return (
    <Page title="Something went wrong">
      <Problem error={error instanceof Error ? error : new Error('The page could not be shown.')} retry={() => window.location.reload()} />
    </Page>
  );
}

function Missing() {
  return (
    <Page title="Not found">
      <Empty title="There is no such page">The address may be mistyped, or of another version of the console.</Empty>
    </Page>
  );
}

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
            { path: 'keys', lazy: () => import('../pages/keys') },
            { path: 'usage', lazy: () => import('../pages/usage') },
            { path: 'webhook', lazy: () => import('../pages/webhook') },
            { path: 'quickstart', lazy: () => import('../pages/quickstart') },
            { path: '*', Component: Missing },
          ],
        },
      ],
    },
  ],
  { basename: '/console' },
);
