/** Who one is here, and the form that changes one's password. */
import { Button, PasswordInput, Stack } from '@mantine/core';
import { type FormEvent, useState } from 'react';

import type { Schemas } from '../../api/client';
import { Facts } from '../../parts/Page';
import { Note } from '../../parts/states';
import { Time } from '../../parts/Time';
import type { PasswordChange } from './load';

const SHORTEST = 10;
const NOTHING = { current: '', fresh: '', again: '' };

export function AccountFacts({ user }: { user: Schemas['User'] }) {
  const { account, sign_in } = user;
  const ways = [...(sign_in.password ? ['a password'] : []), ...(sign_in.identities.length > 0 ? ['single sign-on'] : [])];
  return (
    <Facts
      facts={[
        ['Name', account.name],
        ['Role', account.role],
        ['E-mail', account.email],
        ['Signs in with', ways.join(' and ')],
        ['Since', <Time key="since" at={account.created_at} />],
      ]}
    />
  );
}

export function PasswordForm(props: { name: string; busy: boolean; error: Error | null; done: boolean; onChange: (change: PasswordChange) => void }) {
  const [given, setGiven] = useState(NOTHING);
  const differ = given.again !== '' && given.again !== given.fresh;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (given.again === given.fresh) props.onChange({ current: given.current, new: given.fresh });
  };
  return (
    <form onSubmit={submit} style={{ maxWidth: 380 }}>
      <Stack gap="md">
        {/* For the browser's own store of passwords. */}
        <input type="text" name="username" autoComplete="username" value={props.name} readOnly hidden />
        <Secret label="Current password" autoComplete="current-password" value={given.current} onChange={(current) => setGiven({ ...given, current })} />
        <Secret label="New password" autoComplete="new-password" description={`At least ${SHORTEST} characters`} minLength={SHORTEST} value={given.fresh} onChange={(fresh) => setGiven({ ...given, fresh })} />
        <Secret label="New password again" autoComplete="new-password" error={differ ? 'It differs from the one above' : null} value={given.again} onChange={(again) => setGiven({ ...given, again })} />
        {props.error !== null && (
          <Note tone="bad" role="alert">
            {props.error.message}
          </Note>
        )}
        {props.done && (
          <Note tone="good" role="status">
            Your password is changed. Your other sessions have ended.
          </Note>
        )}
        <div>
          <Button type="submit" loading={props.busy} disabled={given.current === '' || given.fresh === '' || given.again !== given.fresh}>
            Change the password
          </Button>
        </div>
      </Stack>
    </form>
  );
}

function Secret(props: {
  label: string;
  description?: string;
  autoComplete: string;
  error?: string | null;
  minLength?: number;
  value: string;
  onChange: (value: string) => void;
}) {
  const { onChange, ...rest } = props;
  return (
    <PasswordInput
      {...rest}
      required
      withAsterisk={false}
      onChange={(event) => onChange(event.currentTarget.value)}
      visibilityToggleButtonProps={{ 'aria-label': `Show: ${props.label}` }}
    />
  );
}
