/** A figure that can be changed in place: a button that opens a small form with what the empty field means. */
import { Button, Group, NumberInput, Popover, Stack } from '@mantine/core';
import { IconPencil } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';

import { Note } from '../../parts/states';
import admin from './admin.module.css';

export function EditNumber(props: {
  label: string;
  shown: React.ReactNode;
  value: number | null;
  empty: string;
  help: string;
  decimals?: number;
  /** Null: the field is empty. What is refused is shown in the form. */
  onSave: (value: number | null) => Promise<unknown>;
}) {
  const [open, setOpen] = useState(false);
  const save = useMutation({ mutationFn: props.onSave, onSuccess: () => setOpen(false) });
  const [text, setText] = useState<string | number>('');
  const show = () => {
    setText(props.value ?? '');
    save.reset();
    setOpen(true);
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate(text === '' ? null : Number(text));
  };
  return (
    <Popover opened={open} onChange={setOpen} position="bottom-start" trapFocus withinPortal returnFocus>
      <Popover.Target>
        <button type="button" className={admin.edit} onClick={show}>
          <span className="visually-hidden">Change {props.label}:</span>
          {props.shown}
          <IconPencil size={13} aria-hidden />
        </button>
      </Popover.Target>
      <Popover.Dropdown>
        <form onSubmit={submit}>
          <Stack gap="xs" w={250}>
            <NumberInput label={props.label} placeholder={props.empty} description={props.help} min={0} decimalScale={props.decimals ?? 0} value={text} onChange={setText} data-autofocus />
            {save.error !== null && (
              <Note tone="bad" role="alert">
                {save.error.message}
              </Note>
            )}
            <Group justify="flex-end" gap="xs">
              <Button size="xs" variant="default" onClick={() => setOpen(false)}>
                Leave it
              </Button>
              <Button size="xs" type="submit" loading={save.isPending}>
                Save
              </Button>
            </Group>
          </Stack>
        </form>
      </Popover.Dropdown>
    </Popover>
  );
}
