/** The stored input files: used again, or deleted. */
import { ActionIcon, Button, Group } from '@mantine/core';
import { IconTrash } from '@tabler/icons-react';

import { type Column, DataTable } from '../../parts/DataTable';
import { bytes, count } from '../../parts/format';
import css from '../../parts/parts.module.css';
import { Empty } from '../../parts/states';
import { Time } from '../../parts/Time';
import type { StoredFile } from './wire';

export function UploadedFilesView(props: { files: readonly StoredFile[]; more: (() => void) | null; busy: boolean; onUse: (file: StoredFile) => void; onDelete: (file: StoredFile) => void }) {
  if (props.files.length === 0) return <Empty title="No files are stored">What you upload is kept here for a while, to be used again.</Empty>;
  const columns: readonly Column<StoredFile>[] = [
    {
      name: 'File',
      cell: (file) => (
        <div className={css.clipped} style={{ overflow: 'hidden', textOverflow: 'ellipsis' }} title={file.filename}>
          <span style={{ fontWeight: 500 }}>{file.filename}</span>
          <div className={css.sub}>{bytes(file.bytes)}</div>
        </div>
      ),
    },
    { name: 'Uploaded', wide: true, cell: (file) => <Time at={file.created_at} ago /> },
    { name: 'Kept until', wide: true, cell: (file) => <Time at={file.expires_at} /> },
    {
      name: '',
      right: true,
      cell: (file) => (
        <Group gap={4} justify="flex-end" wrap="nowrap">
          <Button size="xs" variant="default" onClick={() => props.onUse(file)} aria-label={`Use ${file.filename}`}>
            Use
          </Button>
          <ActionIcon variant="subtle" color="gray" aria-label={`Delete ${file.filename}`} onClick={() => props.onDelete(file)}>
            <IconTrash size={15} />
          </ActionIcon>
        </Group>
      ),
    },
  ];
  return (
    <>
      <DataTable label="Stored files" columns={columns} rows={props.files} rowKey={(file) => file.id} />
      {props.more !== null && (
        <Group justify="space-between" mt="sm">
          <span className={css.sub}>{`${count(props.files.length)} shown, newest first`}</span>
          <Button size="xs" variant="default" loading={props.busy} onClick={props.more}>
            Show older files
          </Button>
        </Group>
      )}
    </>
  );
}
