/** A moment in the viewer's zone; UTC when it is pointed at. */
import { Tooltip } from '@mantine/core';

import { exact, moment, relative } from './format';
import css from './parts.module.css';
import { useNow } from './useNow';

function utc(at: Date): string {
  return `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

/** `at` is Unix seconds or an ISO time; `ago` tells how long ago it was instead of when, `seconds` when to the second. */
export function Time(props: { at: number | string | null | undefined; ago?: boolean; seconds?: boolean }) {
  const now = useNow(props.ago === true ? 10_000 : null);
  if (props.at === null || props.at === undefined) return <>–</>;
  const at = new Date(typeof props.at === 'number' ? props.at * 1000 : props.at);
  const words = props.ago === true ? relative(at, now) : (props.seconds === true ? exact : moment).format(at);
  return (
    <Tooltip label={props.ago === true ? `${exact.format(at)} · ${utc(at)}` : utc(at)} events={{ hover: true, focus: true, touch: true }}>
      <time dateTime={at.toISOString()} className={props.seconds === true ? `${css.time} ${css.exact}` : css.time}>
        {words}
      </time>
    </Tooltip>
  );
}
