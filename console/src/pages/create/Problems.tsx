/** What is wrong with a file, by line; all that is listed can be downloaded. */
import { Button, Group } from '@mantine/core';
import { IconDownload } from '@tabler/icons-react';

import { type Column, DataTable } from '../../parts/DataTable';
import { count } from '../../parts/format';
import css from '../../parts/parts.module.css';
import { Note } from '../../parts/states';
import own from './create.module.css';
import type { Problem, Problems } from './preflight/types';
import { asCsv, asJsonl } from './wire';

const SHOWN = 100;

type Row = Problem & { at: number };

const COLUMNS: readonly Column<Row>[] = [
  { name: 'Line', right: true, width: 70, cell: (row) => (row.line === null ? 'File' : count(row.line)) },
  { name: 'custom_id', wide: true, cell: (row) => <div className={css.clipped}>{row.custom_id ?? '–'}</div> },
  { name: 'Field', cell: (row) => <span className={`${css.mono} ${own.field}`}>{row.field ?? '–'}</span> },
  {
    name: 'Problem',
    cell: (row) => (
      <>
        {row.message}
        <div className={`${css.sub} ${css.mono} ${own.code}`}>{row.code}</div>
      </>
    ),
  },
];

export function ProblemsView(props: { problems: Problems; filename: string }) {
  const { listed, total } = props.problems;
  const rows = listed.slice(0, SHOWN).map((problem, at) => ({ ...problem, at }));
  const save = (text: string, ending: string, type: string) => saveAs(new Blob([text], { type }), `${props.filename}.problems.${ending}`);
  return (
    <div>
      <div className={own.notes}>
        <Note tone="bad" role="alert">
          {total === 1 ? 'There is one problem' : `There are ${count(total)} problems`}: nothing can be submitted before the file is mended.
        </Note>
      </div>
      <div className={own.problemsHead}>
        <span className={css.sub}>
          {rows.length < total ? `The first ${count(rows.length)} of ${count(total)}; ${count(listed.length)} can be downloaded` : `${count(total)} in all`}
        </span>
        <Group gap="xs">
          <Button size="xs" variant="default" leftSection={<IconDownload size={14} />} onClick={() => save(asCsv(listed), 'csv', 'text/csv')}>
            CSV
          </Button>
          <Button size="xs" variant="default" leftSection={<IconDownload size={14} />} onClick={() => save(asJsonl(listed), 'jsonl', 'application/jsonl')}>
            JSONL
          </Button>
        </Group>
      </div>
      <DataTable label="Problems of the file" columns={COLUMNS} rows={rows} rowKey={(row) => String(row.at)} />
    </div>
  );
}

function saveAs(content: Blob, filename: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = filename;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
