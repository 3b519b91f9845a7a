/** What can be done with a batch: download, retry, cancel, delete; the last two ask first. */
import { ActionIcon, Button, Group, Menu } from '@mantine/core';
import { IconChevronDown, IconCopyPlus, IconDots, IconDownload, IconFileExport, IconPlayerStop, IconRefresh, IconTrash } from '@tabler/icons-react';
import { useState } from 'react';
import { Link } from 'react-router';

import { type Ask, Confirm } from '../../parts/Confirm';
import { count } from '../../parts/format';
import { Note } from '../../parts/states';
import type { Batch } from '../batches/wire';
import { useCancel, useDelete, useDownload, useRetry } from './load';

const CANCEL: Ask = {
  title: 'Cancel this batch?',
  children: 'Nothing more of it starts. Running requests still finish, and what has finished keeps its results.',
  action: 'Cancel the batch',
  danger: true,
};
const DELETE: Ask = {
  title: 'Delete this batch?',
  children: 'Its requests and results are removed for good. Download what you still need first.',
  action: 'Delete the batch',
  danger: true,
};

export function Actions({ batch }: { batch: Batch }) {
  const [asked, setAsked] = useState<Ask | null>(null);
  const cancel = useCancel(batch.id);
  const remove = useDelete(batch.id);
  const retry = useRetry(batch.id);
  const download = useDownload();
  const command = asked === CANCEL ? cancel : remove;
  const close = () => {
    setAsked(null);
    command.reset();
  };
  const wrong = retry.error ?? download.error;
  const unsuccessful = batch.counts.failed + (batch.counts.cancelled ?? 0);
  return (
    <div>
      <Group gap="xs">
        {batch.ended && <Download batch={batch} onDownload={(path) => download.mutate(path)} />}
        {batch.ended && batch.own && unsuccessful > 0 && batch.object.errors == null && (
          <Button variant="default" leftSection={<IconRefresh size={15} />} loading={retry.isPending} onClick={() => retry.mutate()}>
            Retry {count(unsuccessful)} unsuccessful
          </Button>
        )}
        {!batch.ended && batch.object.status !== 'cancelling' && (
          <Button variant="default" leftSection={<IconPlayerStop size={15} />} onClick={() => setAsked(CANCEL)}>
            Cancel
          </Button>
        )}
        <Button variant="default" leftSection={<IconTrash size={15} />} onClick={() => setAsked(DELETE)}>
          Delete
        </Button>
        {(batch.copyable || batch.exportable) && <More batch={batch} onExport={() => download.mutate(`/user/batches/${batch.id}/unfinished.jsonl`)} />}
      </Group>
      {wrong !== null && (
        <div style={{ marginTop: 10, maxWidth: 420 }}>
          <Note tone="bad" role="alert">
            {wrong.message}
          </Note>
        </div>
      )}
      <Confirm ask={asked} busy={command.isPending} error={command.error} onClose={close} onConfirm={() => command.mutate(undefined, { onSuccess: close })} />
    </div>
  );
}

function More(props: { batch: Batch; onExport: () => void }) {
  const { batch } = props;
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="default" size={36} aria-label="More to do with the batch">
          <IconDots size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {batch.copyable && (
          <Menu.Item component={Link} to={`/batches/new?from=${batch.id}`} leftSection={<IconCopyPlus size={14} />}>
            Copy as new batch
          </Menu.Item>
        )}
        {batch.exportable && (
          <Menu.Item leftSection={<IconFileExport size={14} />} onClick={props.onExport}>
            Export unfinished requests
          </Menu.Item>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}

function Download(props: { batch: Batch; onDownload: (path: string) => void }) {
  const { object, id, counts } = props.batch;
  const files = [
    { label: 'All results', path: `/v1/batches/${id}/output.jsonl`, there: counts.total > 0 },
    { label: 'Successful ones', path: `/v1/files/${object.output_file_id}/content`, there: object.output_file_id != null },
    { label: 'Unsuccessful ones', path: `/v1/files/${object.error_file_id}/content`, there: object.error_file_id != null },
  ].filter((file) => file.there);
  const first = files[0];
  if (first === undefined) return null;
  if (files.length === 1) {
    return (
      <Button leftSection={<IconDownload size={15} />} onClick={() => props.onDownload(first.path)}>
        Download results
      </Button>
    );
  }
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button leftSection={<IconDownload size={15} />} rightSection={<IconChevronDown size={14} />}>
          Download results
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {files.map((file) => (
          <Menu.Item key={file.path} onClick={() => props.onDownload(file.path)}>
            {file.label} (JSONL)
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
