/** What stands before every page of administration: others are told whom to ask, and nothing is asked of the gateway. */
import { Outlet } from 'react-router';

import { Page } from '../../parts/Page';
import { Empty } from '../../parts/states';
import { useSignedIn } from '../../session/load';
import { isAdmin } from '../../session/wire';

export function Component() {
  const session = useSignedIn();
  if (isAdmin(session)) return <Outlet />;
  return (
    <Page title="Administration">
      <Empty title="This is for administrators">
        You are signed in with the role {session.role}. Ask an administrator for what you need.
      </Empty>
    </Page>
  );
}
