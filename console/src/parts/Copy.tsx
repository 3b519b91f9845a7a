/** Copying: a button beside a value, and code with one in its corner. */
import { ActionIcon, Tooltip } from '@mantine/core';
import { IconAlertTriangle, IconCheck, IconCopy } from '@tabler/icons-react';
import { type MouseEvent, useEffect, useState } from 'react';

import { copyText } from './clipboard';
import css from './parts.module.css';

const TOLD_MS = 2_500;
const WORDS = { copied: 'Copied', refused: 'The browser did not let it be copied: select it and copy it' };

export function Copy(props: { value: string; label?: string }) {
  const [outcome, setOutcome] = useState<keyof typeof WORDS | null>(null);
  useEffect(() => {
    if (outcome === null) return undefined;
    const timer = window.setTimeout(() => setOutcome(null), TOLD_MS);
    return () => window.clearTimeout(timer);
  }, [outcome]);
  const copy = async (event: MouseEvent) => {
    event.stopPropagation();
    setOutcome((await copyText(props.value)) ? 'copied' : 'refused');
  };
  const words = outcome === null ? (props.label ?? 'Copy') : WORDS[outcome];
  const Icon = outcome === null ? IconCopy : outcome === 'copied' ? IconCheck : IconAlertTriangle;
  return (
    <Tooltip label={words}>
      <ActionIcon variant="subtle" color="gray" size="sm" aria-label={words} onClick={(event) => void copy(event)}>
        <Icon size={14} />
      </ActionIcon>
    </Tooltip>
  );
}

export function Code(props: { text: string; label: string; wrapped?: boolean }) {
  return (
    <div className={css.code}>
      <pre tabIndex={0} aria-label={props.label} className={props.wrapped === true ? css.wrapped : undefined}>
        {props.text}
      </pre>
      <div className={css.codeCopy}>
        <Copy value={props.text} label="Copy all of it" />
      </div>
    </div>
  );
}

/** An identifier, shortened in the middle, to be copied whole. */
export function Id(props: { id: string; long?: boolean }) {
  const short = props.long === true || props.id.length <= 20 ? props.id : `${props.id.slice(0, 14)}…${props.id.slice(-4)}`;
  return (
    <span style={{ display: 'inline-flex', alignItems: 'center', gap: 4, maxWidth: '100%' }}>
      <span className={css.mono} title={props.id} style={{ overflowWrap: 'anywhere' }}>
        {short}
      </span>
      <Copy value={props.id} label="Copy the id" />
    </span>
  );
}
