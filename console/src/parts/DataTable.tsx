/** A table of rows that may lead somewhere, with its pages. Columns marked `wide` are left out on a phone. */
import { Button, Group } from '@mantine/core';
import { IconChevronLeft, IconChevronRight } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import { useNavigate } from 'react-router';

import { count } from './format';
import css from './parts.module.css';
import type { UrlState } from './useUrlState';

export interface Column<Row> {
  name: string;
  cell: (row: Row) => ReactNode;
  right?: boolean;
  wide?: boolean;
  width?: number | string;
}

export function DataTable<Row>(props: {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  rowTo?: (row: Row) => string;
  stale?: boolean;
}) {
  const navigate = useNavigate();
  const classes = (column: Column<Row>) => [column.right && css.right, column.wide && css.wide].filter(Boolean).join(' ') || undefined;
  return (
    <div className={css.scroll} tabIndex={0} role="region" aria-label={props.label}>
      <table className={props.stale === true ? `${css.table} ${css.stale}` : css.table}>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th key={column.name} className={classes(column)} style={{ width: column.width }} scope="col">
                {column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr
              key={props.rowKey(row)}
              className={props.rowTo === undefined ? undefined : css.linked}
              onClick={(event) => {
                // The row is for the mouse; its link, which the keyboard finds, is in the first cell. Whoever has drawn
                // over words of it wants to copy them.
                const inner = event.target instanceof Element && event.target.closest('a, button, input') !== null;
                const drawn = window.getSelection()?.type === 'Range';
                if (props.rowTo !== undefined && !inner && !drawn) void navigate(props.rowTo(row));
              }}
            >
              {props.columns.map((column) => (
                <td key={column.name} className={classes(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Where the next page of a list begins; null: this is the last one. */
export function nextOf(page: { has_more: boolean; last_id?: string | null }): string | null {
  return page.has_more ? (page.last_id ?? null) : null;
}

/** Leads through the pages of a list that is read by cursor. `order`: which entries come first. */
export function Pager(props: { url: UrlState; shown: number; order: string; next: string | null }) {
  const { url, next } = props;
  if (url.goBack === null && next === null) return null;
  return (
    <Group justify="space-between" mt="sm">
      <span className={css.sub}>{`${count(props.shown)} shown, ${props.order}`}</span>
      <Group gap="xs">
        <Button variant="default" size="xs" leftSection={<IconChevronLeft size={14} />} disabled={url.goBack === null} onClick={() => url.goBack?.()}>
          Previous
        </Button>
        <Button variant="default" size="xs" rightSection={<IconChevronRight size={14} />} disabled={next === null} onClick={() => next !== null && url.goAfter(next)}>
          Next
        </Button>
      </Group>
    </Group>
  );
}
