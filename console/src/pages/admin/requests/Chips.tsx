/** What a list is narrowed to, each to be taken away: a bar's window, one batch, one account. */
import { ActionIcon, Select } from '@mantine/core';
import { IconX } from '@tabler/icons-react';

import type { UrlState } from '../../../parts/useUrlState';
import admin from '../admin.module.css';
import { WINDOWS } from './wire';

export function Chip(props: { name: string; children: React.ReactNode; onClear: () => void }) {
  return (
    <span className={admin.chip}>
      <span>
        {props.name}: {props.children}
      </span>
      <ActionIcon variant="transparent" size="xs" color="inherit" aria-label={`Clear ${props.name}`} onClick={props.onClear} style={{ color: 'inherit' }}>
        <IconX size={13} />
      </ActionIcon>
    </span>
  );
}

export function Lookback(props: { url: UrlState; value: string }) {
  return (
    <Select
      aria-label="How far back"
      w={130}
      data={WINDOWS.map(({ value, label }) => ({ value, label }))}
      value={props.value}
      allowDeselect={false}
      onChange={(value) => props.url.set({ window: value ?? '' })}
    />
  );
}

export function ModelChoice(props: { url: UrlState; models: readonly string[] }) {
  return (
    <Select
      aria-label="Model"
      placeholder="Any model"
      w={190}
      clearable
      searchable
      data={[...props.models]}
      value={props.url.get('model') || null}
      onChange={(model) => props.url.set({ model: model ?? '' })}
    />
  );
}
