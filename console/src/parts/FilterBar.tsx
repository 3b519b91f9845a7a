/** A search field (`/` focuses it, Esc empties it) and choices, all kept in the URL. */
import { SegmentedControl, Select, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconSearch } from '@tabler/icons-react';
import { useEffect, useRef, useState } from 'react';

import css from './parts.module.css';
import type { UrlState } from './useUrlState';

export interface Choice {
  name: string;
  label: string;
  options: readonly { value: string; label: string }[];
}

export function FilterBar(props: { url: UrlState; search?: string; choices?: readonly Choice[]; children?: React.ReactNode }) {
  return (
    <div className={css.filters} role="search">
      {props.search !== undefined && <SearchField url={props.url} label={props.search} />}
      {props.choices?.map((choice) => <ChoiceField key={choice.name} url={props.url} choice={choice} />)}
      {props.children}
    </div>
  );
}

function SearchField(props: { url: UrlState; label: string }) {
  const inUrl = props.url.get('search');
  const [text, setText] = useState(inUrl);
  const field = useRef<HTMLInputElement>(null);
  const told = useRef(inUrl);
  const tell = useDebouncedCallback((value: string) => {
    told.current = value;
    props.url.set({ search: value });
  }, 200);
  useEffect(() => {
    // Changed by the back button or a link, not by typing here.
    if (inUrl !== told.current) {
      told.current = inUrl;
      setText(inUrl);
    }
  }, [inUrl]);
  const change = (value: string) => {
    setText(value);
    tell(value.trim());
  };
  return (
    <TextInput
      ref={field}
      data-search
      aria-label={props.label}
      placeholder={`${props.label}  ( / )`}
      leftSection={<IconSearch size={14} />}
      value={text}
      onChange={(event) => change(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return;
        if (text === '') field.current?.blur();
        else change('');
      }}
      style={{ flex: '1 1 220px', maxWidth: 340 }}
    />
  );
}

function ChoiceField(props: { url: UrlState; choice: Choice }) {
  const { choice, url } = props;
  const data = choice.options.map((option) => ({ ...option }));
  const value = url.get(choice.name);
  const change = (next: string | null) => url.set({ [choice.name]: next ?? '' });
  return (
    <>
      <SegmentedControl visibleFrom="sm" size="xs" data={data} value={value} onChange={change} aria-label={choice.label} />
      <Select hiddenFrom="sm" data={data} value={value} onChange={change} aria-label={choice.label} allowDeselect={false} w={150} />
    </>
  );
}
