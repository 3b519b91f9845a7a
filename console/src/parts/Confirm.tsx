/** Asks before what cannot be undone; shows what was refused in place. */
import { Text } from '@mantine/core';
import type { ReactNode } from 'react';

import { type Decision, Dialog, DialogForm } from './Dialog';

export interface Ask {
  title: string;
  children: ReactNode;
  action: string;
  /** The button that does nothing. */
  keep?: string;
  danger?: boolean;
}

export function Confirm({ ask, onConfirm, ...decision }: Decision & { ask: Ask | null; onConfirm: () => void }) {
  return (
    <Dialog about={ask} title={({ title }) => title} onClose={decision.onClose}>
      {({ children, action, keep, danger }) => (
        <DialogForm {...decision} action={action} keep={keep ?? 'Keep it'} danger={danger} onSubmit={onConfirm}>
          <Text size="sm" component="div">
            {children}
          </Text>
        </DialogForm>
      )}
    </Dialog>
  );
}
