/**
 * Dialogs with something to decide: a form, what was refused of it, and two buttons. They open and close in place, so that
 * the focus returns to where they were asked for.
 */
import { Button, Group, Modal, Stack } from '@mantine/core';
import { type FormEvent, type ReactNode, useEffect } from 'react';

import { Note } from './states';

/** `about` is what the dialog is about; null closes it. What stands in it is made anew each time it opens. */
export function Dialog<T>(props: { about: T | null; title: (about: T) => string; onClose: () => void; children: (about: T) => ReactNode }) {
  const { about } = props;
  useFocusBack(about !== null);
  return (
    <Modal opened={about !== null} onClose={props.onClose} returnFocus={false} title={about === null ? '' : props.title(about)}>
      {about !== null && props.children(about)}
    </Modal>
  );
}

/** When what is opened closes, the focus is where it was before; from an item of a menu it goes to the menu's button. */
function useFocusBack(opened: boolean): void {
  useEffect(() => {
    if (!opened) return undefined;
    const before = document.activeElement;
    const menu = before?.closest('[role="menu"]')?.getAttribute('aria-labelledby');
    const opener = menu == null ? before : document.getElementById(menu);
    return () => {
      if (opener instanceof HTMLElement) opener.focus();
    };
  }, [opened]);
}

export interface Decision {
  busy: boolean;
  error: Error | null;
  onClose: () => void;
}

/** The form in a dialog. `danger`: what cannot be undone is not what Enter does. */
export function DialogForm(
  props: Decision & { action: string; keep?: string; danger?: boolean; ready?: boolean; onSubmit: () => void; children: ReactNode },
) {
  const danger = props.danger === true;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    props.onSubmit();
  };
  return (
    <form onSubmit={submit}>
      <Stack gap="md">
        {props.children}
        {props.error !== null && (
          <Note tone="bad" role="alert">
            {props.error.message}
          </Note>
        )}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={props.onClose} data-autofocus={danger || undefined}>
            {props.keep ?? 'Not now'}
          </Button>
          <Button type="submit" color={danger ? 'red.9' : undefined} loading={props.busy} disabled={props.ready === false}>
            {props.action}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
