/** What is known of a cost; tries of unknown cost are told beside it and never counted as nothing. */
import { Tooltip } from '@mantine/core';

import { counted, usd } from './format';

export function Money(props: { usd: number; unknown?: number }) {
  const unknown = props.unknown ?? 0;
  if (unknown === 0) return <>{usd(props.usd)}</>;
  const words = `${counted(unknown, 'try', 'tries')} of unknown cost not included`;
  return (
    <Tooltip label={words}>
      <span tabIndex={0}>
        {usd(props.usd)}
        <span aria-hidden> +?</span>
        <span className="visually-hidden">, {words}</span>
      </span>
    </Tooltip>
  );
}
