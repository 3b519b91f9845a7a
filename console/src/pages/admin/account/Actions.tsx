/** What can be done with an account: change, suspend, delete, remove for good; the last asks for its name. */
import { Button, Group, Menu, Modal, Stack, Text, TextInput } from '@mantine/core';
import { IconChevronDown, IconPencil } from '@tabler/icons-react';
import { useState } from 'react';

import type { Schemas } from '../../../api/client';
import { type Ask, Confirm } from '../../../parts/Confirm';
import { Note } from '../../../parts/states';
import { AccountForm } from '../accounts/Form';
import { changeOf, draftOf } from '../accounts/wire';
import { useChangeAccount, useDeleteAccount } from './load';

type Account = Schemas['AccountDetail'];
type Asked = 'suspend' | 'delete' | 'purge' | 'change' | null;

export function Actions(props: { account: Account; removed: boolean }) {
  const { account } = props;
  const [asked, setAsked] = useState<Asked>(null);
  const change = useChangeAccount(account.id);
  const remove = useDeleteAccount(account.id);
  const close = () => {
    setAsked(null);
    change.reset();
    remove.reset();
  };
  const done = { onSuccess: close };
  const deleted = account.state === 'deleted';
  const command = asked === 'suspend' ? change : remove;
  return (
    <Group gap="xs">
      {!deleted && (
        <Button variant="default" leftSection={<IconPencil size={15} />} onClick={() => setAsked('change')}>
          Change
        </Button>
      )}
      {account.state === 'suspended' && (
        <Button loading={change.isPending} onClick={() => change.mutate({ state: 'active' }, done)}>
          Let it act again
        </Button>
      )}
      {!props.removed && (
        <Menu position="bottom-end">
          <Menu.Target>
            <Button variant="default" rightSection={<IconChevronDown size={14} />}>
              More
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            {account.state === 'active' && <Menu.Item onClick={() => setAsked('suspend')}>Suspend</Menu.Item>}
            {!deleted && (
              <Menu.Item color="red" onClick={() => setAsked('delete')}>
                Delete
              </Menu.Item>
            )}
            <Menu.Item color="red" onClick={() => setAsked('purge')}>
              Remove for good
            </Menu.Item>
          </Menu.Dropdown>
        </Menu>
      )}
      <Confirm
        ask={asked === 'suspend' || asked === 'delete' ? askOf(asked, account.name) : null}
        busy={command.isPending}
        error={command.error}
        onClose={close}
        onConfirm={() => (asked === 'suspend' ? change.mutate({ state: 'suspended' }, done) : remove.mutate(false, done))}
      />
      {asked === 'purge' && <Removal name={account.name} busy={remove.isPending} error={remove.error} onClose={close} onRemove={() => remove.mutate(true, done)} />}
      {asked === 'change' && (
        <AccountForm
          start={draftOf(account)}
          title={`Change ${account.name}`}
          action="Save"
          withCaps
          busy={change.isPending}
          error={change.error}
          onClose={close}
          onSubmit={(draft) => change.mutate(changeOf(draftOf(account), draft), done)}
        />
      )}
    </Group>
  );
}

function askOf(what: 'suspend' | 'delete', name: string): Ask {
  if (what === 'suspend') {
    return {
      title: `Suspend ${name}?`,
      children: 'Its keys and sessions are refused at once, and nothing new of its batches starts. It can be let act again.',
      action: 'Suspend it',
      danger: true,
    };
  }
  return {
    title: `Delete ${name}?`,
    children: 'Its keys and sessions are refused at once, and its batches stop. What it stored is kept until it is removed for good.',
    action: 'Delete the account',
    danger: true,
  };
}

function Removal(props: { name: string; busy: boolean; error: Error | null; onRemove: () => void; onClose: () => void }) {
  const [typed, setTyped] = useState('');
  return (
    <Modal opened onClose={props.onClose} title={`Remove ${props.name} for good?`} closeButtonProps={{ 'aria-label': 'Close' }}>
      <Stack gap="md">
        <Text size="sm">
          Its batches with their results, files, keys, webhook, sessions and stored contents go. What it was charged, its rows in the
          request log without content, and the audit log stay. This cannot be undone.
        </Text>
        <TextInput label={`Type ${props.name} to go on`} value={typed} onChange={(event) => setTyped(event.currentTarget.value)} data-autofocus autoComplete="off" />
        {props.error !== null && (
          <Note tone="bad" role="alert">
            {props.error.message}
          </Note>
        )}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={props.onClose}>
            Keep it
          </Button>
          <Button color="red.9" disabled={typed !== props.name} loading={props.busy} onClick={props.onRemove}>
            Remove it for good
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
