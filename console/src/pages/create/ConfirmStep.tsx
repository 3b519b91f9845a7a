/** Step 3: what the check found, and what exactly will be submitted. Nothing runs before the button. */
import { Anchor, Button } from '@mantine/core';
import { Link } from 'react-router';

import { Code } from '../../parts/Copy';
import { bytes, count, counted, usd } from '../../parts/format';
import { Facts, Section } from '../../parts/Page';
import css from '../../parts/parts.module.css';
import { Note } from '../../parts/states';
import own from './create.module.css';
import { ProblemsView } from './Problems';
import { type Capabilities, type Checked, TARGET_WORDS } from './wire';

export interface KeyUsed {
  name: string;
  prefix: string;
}

export function ConfirmStep(props: {
  checked: Checked;
  capabilities: Capabilities;
  /** Undefined while it is read. */
  keyUsed: KeyUsed | null | undefined;
  busy: boolean;
  error: Error | null;
  /** What was checked is not what would be submitted now. */
  stale: boolean;
  onBack: () => void;
  onCheck: () => void;
  onSubmit: () => void;
}) {
  const { checked } = props;
  const good = checked.problems.total === 0;
  return (
    <div>
      {good ? <Good {...props} /> : <ProblemsView problems={checked.problems} filename={checked.source.filename} />}
      {props.error !== null && (
        <div style={{ marginTop: 16 }}>
          <Note tone="bad" role="alert">
            {props.error.message}
          </Note>
        </div>
      )}
      <div className={own.foot}>
        <Button variant="default" onClick={props.onBack} disabled={props.busy}>
          Back
        </Button>
        {good && props.stale && (
          <Button onClick={props.onCheck} loading={props.busy}>
            Check every line again
          </Button>
        )}
        {good && !props.stale && (
          <Button onClick={props.onSubmit} loading={props.busy} disabled={props.keyUsed == null || !props.capabilities.role_may_submit}>
            Submit {counted(checked.prepared.requests, 'request')}
          </Button>
        )}
      </div>
    </div>
  );
}

function Good({ checked, capabilities, keyUsed }: { checked: Checked; capabilities: Capabilities; keyUsed: KeyUsed | null | undefined }) {
  const { prepared } = checked;
  return (
    <>
      <div className={own.notes}>
        <Note tone="good" role="status">
          Every line is good. Nothing has run, and nothing was billed.
        </Note>
        {keyUsed === null && (
          <Note tone="warn" role="status">
            A batch runs under an API key and you have none:{' '}
            <Anchor component={Link} to="/keys" fz="inherit" underline="always">
              make one
            </Anchor>
            , then come back.
          </Note>
        )}
      </div>
      <div className={own.panel}>
        <Facts facts={factsOf(checked, capabilities, keyUsed)} />
      </div>
      <Section title={prepared.first.length === 1 ? 'The request, as it will be stored' : `The first ${prepared.first.length} requests, as they will be stored`}>
        <Code text={prepared.first.map(pretty).join('\n')} label="The first stored requests" wrapped />
      </Section>
    </>
  );
}

function factsOf({ prepared, choices, target, model }: Checked, capabilities: Capabilities, keyUsed: KeyUsed | null | undefined) {
  const window = capabilities.file_window_hours;
  return [
    ['Name', choices.name],
    ['Type', TARGET_WORDS[target]],
    ['Model', <span key="model" style={{ fontWeight: 600 }}>{model}</span>],
    ['Requests', `${count(prepared.requests)} · ${bytes(prepared.stored.size)}`],
    ['Window', window === null || window === undefined ? 'None: requests never expire' : `${window} hours to start every request`],
    ['Costs at most', <Cost key="cost" atMost={prepared.atMost} />],
    ['Billing', <Billing key="billing" capabilities={capabilities} model={model} />],
    ['Results are kept', days(capabilities.retention_days, 'after the batch has ended')],
    ['The file is kept', days(capabilities.file_retention_days, 'after it was uploaded')],
    ['API key', keyUsed == null ? (keyUsed === null ? 'None' : '…') : <KeyName key="key" {...keyUsed} />],
  ] as const;
}

function Cost({ atMost }: { atMost: number | null }) {
  if (atMost === null)
    return (
      <>
        Not bounded
        <div className={css.sub}>set max_tokens to bound it</div>
      </>
    );
  return (
    <>
      {usd(Number(atMost.toPrecision(3)))}
      <div className={css.sub}>if every answer were as long as it may be</div>
    </>
  );
}

function Billing({ capabilities, model }: { capabilities: Capabilities; model: string | null }) {
  const prices = capabilities.models.find((one) => one.id === model)?.prices;
  if (prices === undefined) return <>As interactive requests</>;
  const price = (amount: number) => usd(amount * prices.batch_factor);
  return (
    <>
      {price(prices.input)} in, {price(prices.output)} out
      <div className={css.sub}>
        per million tokens, each attempt{prices.batch_factor === 1 ? ' as an interactive request' : `: ${prices.batch_factor} times the interactive price`}
      </div>
    </>
  );
}

function KeyName({ name, prefix }: KeyUsed) {
  return (
    <>
      {prefix === name ? 'This console’s' : <span className={css.mono}>{prefix}…</span>}
      <div className={css.sub}>revoking it fails what has not finished; signing out does not</div>
    </>
  );
}

function days(number: number, after: string): string {
  return `${counted(number, 'day')} ${after}`;
}

function pretty(line: string): string {
  return JSON.stringify(JSON.parse(line), null, 2);
}
