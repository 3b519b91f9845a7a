/** The page before all others: first-run set-up while that is open, else signing in. */
import { Button, PasswordInput, Stack, Text, TextInput, Title } from '@mantine/core';
import { type FormEvent, useState } from 'react';

import { Mark } from '../app/Mark';
import { Loading, Note, Problem } from '../parts/states';
import { hadSession, useClaimSetup, useSetup, useSignIn } from './load';
import css from './session.module.css';

export function SignIn() {
  const setup = useSetup();
  return (
    <main className={css.frame}>
      <div className={css.panel}>
        <div style={{ display: 'flex', justifyContent: 'center', marginBottom: 20 }}>
          <Mark />
        </div>
        <div className={css.form}>
          {setup.data !== undefined && (setup.data.open ? <SetupForm /> : <SignInForm oidc={setup.data.oidc === true} />)}
          {setup.data === undefined && setup.error !== null && <Problem error={setup.error} retry={setup.refetch} />}
          {setup.data === undefined && setup.error === null && <Loading rows={3} />}
        </div>
      </div>
    </main>
  );
}

function SignInForm(props: { oidc: boolean }) {
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const signIn = useSignIn();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    signIn.mutate({ name, password });
  };
  const here = window.location.pathname + window.location.search;
  return (
    <form onSubmit={submit}>
      <Stack gap="md">
        <Title order={1}>Sign in</Title>
        {hadSession() && (
          <Note tone="warn" role="status">
            Your session has ended. Sign in to go on where you were.
          </Note>
        )}
        {props.oidc && (
          <>
            <Button component="a" href={`/session/oidc/start?next=${encodeURIComponent(here)}`} fullWidth>
              Continue with single sign-on
            </Button>
            <Text size="xs" c="dimmed" ta="center">
              or with a password
            </Text>
          </>
        )}
        <TextInput label="Name" autoComplete="username" required withAsterisk={false} autoFocus value={name} onChange={(event) => setName(event.currentTarget.value)} />
        <PasswordInput
          label="Password"
          autoComplete="current-password"
          required
          withAsterisk={false}
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
          visibilityToggleButtonProps={{ 'aria-label': 'Show the password' }}
        />
        {signIn.error !== null && (
          <Note tone="bad" role="alert">
            {signIn.error.message}
          </Note>
        )}
        <Button type="submit" loading={signIn.isPending} fullWidth variant={props.oidc ? 'default' : 'filled'}>
          Sign in
        </Button>
        <Text size="xs" c="dimmed">
          API keys are for programs. No password yet? An administrator sets one: <code>ebbtide accounts set-password NAME</code>
        </Text>
      </Stack>
    </form>
  );
}

function SetupForm() {
  const [given, setGiven] = useState({ code: '', name: 'admin', password: '' });
  const claim = useClaimSetup();
  const set = (change: Partial<typeof given>) => setGiven({ ...given, ...change });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    claim.mutate({ ...given, code: given.code.trim() });
  };
  return (
    <form onSubmit={submit}>
      <Stack gap="md">
        <div>
          <Title order={1}>Set up this gateway</Title>
          <Text size="sm" c="dimmed" mt={4}>
            The first administrator is whoever has the set-up code, which was printed where the gateway was started. Scrolled
            away? <code>ebbtide accounts setup-code</code> prints another.
          </Text>
        </div>
        <TextInput label="Set-up code" required withAsterisk={false} autoFocus autoComplete="off" spellCheck={false} value={given.code} onChange={(event) => set({ code: event.currentTarget.value })} />
        <TextInput label="Name" description="An e-mail address is a fine name" required withAsterisk={false} autoComplete="username" value={given.name} onChange={(event) => set({ name: event.currentTarget.value })} />
        <PasswordInput
          label="Password"
          description="At least 10 characters"
          required
          withAsterisk={false}
          minLength={10}
          autoComplete="new-password"
          value={given.password}
          onChange={(event) => set({ password: event.currentTarget.value })}
          visibilityToggleButtonProps={{ 'aria-label': 'Show the password' }}
        />
        {claim.error !== null && (
          <Note tone="bad" role="alert">
            {claim.error.message}
          </Note>
        )}
        <Button type="submit" loading={claim.isPending} fullWidth>
          Make the administrator
        </Button>
      </Stack>
    </form>
  );
}
