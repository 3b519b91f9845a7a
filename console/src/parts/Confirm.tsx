/** Asks before what cannot be undone; shows what was refused in place. */
import { Button, Group, Modal, Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';

import { Note } from './states';

export interface Ask {
  title: string;
  children: ReactNode;
  action: string;
  danger?: boolean;
}

export function Confirm(props: {
  ask: Ask | null;
  busy: boolean;
  error: Error | null;
  onConfirm: () => void;
  onClose: () => void;
}) {
  const { ask } = props;
  return (
    <Modal opened={ask !== null} onClose={props.onClose} title={ask?.title} closeButtonProps={{ 'aria-label': 'Close' }}>
      {ask !== null && (
        <Stack gap="md">
          <Text size="sm" component="div">
            {ask.children}
          </Text>
          {props.error !== null && (
            <Note tone="bad" role="alert">
              {props.error.message}
            </Note>
          )}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={props.onClose}>
              Keep it
            </Button>
            <Button color={ask.danger === true ? 'red.9' : undefined} loading={props.busy} onClick={props.onConfirm} data-autofocus>
              {ask.action}
            </Button>
          </Group>
        </Stack>
      )}
    </Modal>
  );
}
