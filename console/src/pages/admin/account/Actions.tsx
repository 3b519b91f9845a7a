/** What can be done with an account: change, suspend, delete, remove for good; the last asks for its name. */
import { Button, Group, Menu, Text, TextInput } from '@mantine/core';
import { IconChevronDown, IconPencil } from '@tabler/icons-react';
import { useState } from 'react';

import type { Schemas } from '../../../api/client';
import { type Ask, Confirm } from '../../../parts/Confirm';
import { type Decision, Dialog, DialogForm } from '../../../parts/Dialog';
import { AccountDialog } from '../accounts/Form';
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
      <Dialog about={asked === 'purge' ? account.name : null} title={(name) => `Remove ${name} for good?`} onClose={close}>
        {(name) => <Removal name={name} busy={remove.isPending} error={remove.error} onClose={close} onRemove={() => remove.mutate(true, done)} />}
      </Dialog>
      <AccountDialog
        start={asked === 'change' ? draftOf(account) : null}
        title={`Change ${account.name}`}
        action="Save"
        withCaps
        busy={change.isPending}
        error={change.error}
        onClose={close}
        onSubmit={(draft) => change.mutate(changeOf(draftOf(account), draft), done)}
      />
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

function Removal({ name, onRemove, ...decision }: Decision & { name: string; onRemove: () => void }) {
  const [typed, setTyped] = useState('');
  return (
    <DialogForm {...decision} action="Remove it for good" keep="Keep it" danger ready={typed === name} onSubmit={onRemove}>
      <Text size="sm">
        Its batches with their results, files, keys, webhook, sessions and stored contents go. What it was charged, its rows in the
        request log without content, and the audit log stay. This cannot be undone.
      </Text>
      <TextInput label={`Type ${name} to go on`} value={typed} onChange={(event) => setTyped(event.currentTarget.value)} autoComplete="off" />
    </DialogForm>
  );
}
