/** /account: one's own account, its password and its sessions. */
import { Button } from '@mantine/core';
import { useState } from 'react';

import { type Ask, Confirm } from '../../parts/Confirm';
import { Page, Section } from '../../parts/Page';
import { Loaded, Note } from '../../parts/states';
import { useUser } from '../keys/load';
import { useChangePassword, useSignOutEverywhere } from './load';
import { AccountFacts, PasswordForm } from './view';

const EVERYWHERE: Ask = {
  title: 'Sign out everywhere?',
  children: 'Every session of your account ends, this one too. API keys and running batches go on.',
  action: 'Sign out everywhere',
  danger: true,
};

export function Component() {
  const user = useUser();
  const change = useChangePassword();
  const leave = useSignOutEverywhere();
  const [asked, setAsked] = useState<Ask | null>(null);
  return (
    <Page
      title="Your account"
      actions={
        <Button variant="default" onClick={() => setAsked(EVERYWHERE)}>
          Sign out everywhere
        </Button>
      }
    >
      <Loaded query={user}>
        {(told) => (
          <>
            <AccountFacts user={told} />
            <Section title="Password">
              {told.sign_in.password ? (
                // Begun anew, and so empty, after each change.
                <PasswordForm key={change.submittedAt * Number(change.isSuccess)} name={told.account.name} busy={change.isPending} error={change.error} done={change.isSuccess} onChange={(given) => change.mutate(given)} />
              ) : (
                <Note tone="quiet">Your account has no password here: you sign in at your organisation, which keeps it.</Note>
              )}
            </Section>
          </>
        )}
      </Loaded>
      <Confirm ask={asked} busy={leave.isPending} error={leave.error} onClose={() => setAsked(null)} onConfirm={() => leave.mutate()} />
    </Page>
  );
}
