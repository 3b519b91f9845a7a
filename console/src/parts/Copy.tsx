/** Copying: a button beside a value, and code with one in its corner. */
import { ActionIcon, CopyButton, Tooltip } from '@mantine/core';
import { IconCheck, IconCopy } from '@tabler/icons-react';

import css from './parts.module.css';

export function Copy(props: { value: string; label?: string }) {
  return (
    <CopyButton value={props.value} timeout={1_500}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? 'Copied' : (props.label ?? 'Copy')}>
          <ActionIcon
            variant="subtle"
            color="gray"
            size="sm"
            aria-label={copied ? 'Copied' : (props.label ?? 'Copy')}
            onClick={(event) => {
              event.stopPropagation();
              copy();
            }}
          >
            {copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
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
