/** A field for an amount of USD as text; empty: none is given. */
import { NumberInput, type NumberInputProps } from '@mantine/core';

interface AmountProps extends Pick<NumberInputProps, 'label' | 'description'> {
  value: string;
  onChange: (value: string) => void;
  'data-autofocus'?: boolean;
}

export function Amount(props: AmountProps) {
  return <NumberInput {...props} min={0} decimalScale={6} prefix="$" hideControls onChange={(value) => props.onChange(String(value))} />;
}
