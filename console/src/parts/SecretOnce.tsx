/** A secret that is shown this once: to be copied before the dialog is closed. */
import { Button, Group, Modal, Stack, Text } from '@mantine/core';

import { Code } from './Copy';

export function SecretOnce(props: { title: string; secret: string | null; children: React.ReactNode; onClose: () => void }) {
  return (
    <Modal
      opened={props.secret !== null}
      onClose={props.onClose}
      title={props.title}
      closeOnClickOutside={false}
      size="lg"
    >
      <Stack gap="md">
        <Text size="sm">{props.children}</Text>
        <Code text={props.secret ?? ''} label={props.title} />
        <Group justify="flex-end">
          <Button onClick={props.onClose}>I have copied it</Button>
        </Group>
      </Stack>
    </Modal>
  );
}
