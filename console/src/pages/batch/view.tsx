/** One batch from top to bottom, but for its requests. */
import { Id } from '../../parts/Copy';
import { type Column, DataTable } from '../../parts/DataTable';
import { count } from '../../parts/format';
import { Facts, Section } from '../../parts/Page';
import css from '../../parts/parts.module.css';
import { Note } from '../../parts/states';
import { Time } from '../../parts/Time';
import type { Batch } from '../batches/wire';
import own from './batch.module.css';
import { ProgressView } from './Progress';
import { type ErrorGroup, timelineOf } from './wire';

export function BatchView(props: { batch: Batch; rate: number | null; errors: ErrorGroup[]; onError: (outcome: string) => void }) {
  const { batch } = props;
  return (
    <>
      <ProgressView batch={batch} rate={props.rate} />
      {batch.object.errors !== null && batch.object.errors !== undefined && <FileProblems batch={batch} />}
      <div className={own.columns}>
        <Section title="Timeline">
          <ol className={own.steps}>
            {timelineOf(batch).map((step) => (
              <li key={step.name} className={`${own.step} ${own[step.tone]}`}>
                <span>{step.name}</span>
                <Time at={step.at} seconds />
              </li>
            ))}
          </ol>
        </Section>
        <Section title="Settings">
          <Settings batch={batch} />
        </Section>
      </div>
      {props.errors.length > 0 && (
        <Section title="Errors">
          <DataTable label="Errors by code" columns={errorColumns(props.onError)} rows={props.errors} rowKey={(group) => `${group.outcome} ${group.code} ${group.status}`} />
        </Section>
      )}
    </>
  );
}

function Settings({ batch }: { batch: Batch }) {
  const { object } = batch;
  const metadata = Object.entries(object.metadata ?? {}).filter(([name]) => name !== 'name' && name !== 'source_file_id');
  return (
    <Facts
      facts={[
        ['Model', batch.model],
        ['Target', batch.target],
        ['Input method', batch.method],
        ['Window', object.expires_at === null ? 'None' : object.completion_window],
        ['Input tokens', count(object.usage.input_tokens)],
        ['of them cached', count(object.usage.input_tokens_details.cached_tokens)],
        ['Output tokens', count(object.usage.output_tokens)],
        ['Input file', object.input_file_id === null || object.input_file_id === undefined ? null : <Id id={object.input_file_id} />],
        ...metadata.map(([name, value]) => [name, value] as const),
      ]}
    />
  );
}

function errorColumns(onError: (outcome: string) => void): readonly Column<ErrorGroup>[] {
  return [
    {
      name: 'Code',
      cell: (group) => (
        <button type="button" className={css.rowLink} style={{ border: 0, background: 'none', padding: 0, font: 'inherit', fontWeight: 500, cursor: 'pointer' }} onClick={() => onError(group.outcome)}>
          {group.code ?? group.outcome}
        </button>
      ),
    },
    { name: 'Status', cell: (group) => group.status ?? '–', wide: true },
    { name: 'Requests', right: true, cell: (group) => count(group.requests) },
    {
      name: 'For example',
      wide: true,
      cell: (group) => (
        <>
          <span style={{ fontWeight: 500 }}>{group.custom_id}</span>
          <div className={css.sub}>{group.message}</div>
        </>
      ),
    },
  ];
}

function FileProblems({ batch }: { batch: Batch }) {
  const problems = batch.object.errors?.data ?? [];
  return (
    <Section title="What is wrong with the file">
      <div style={{ marginBottom: 12 }}>
        <Note tone="bad">Nothing of this batch ran. Mend these lines and submit the file again.</Note>
      </div>
      <DataTable
        label="Problems of the file"
        rows={problems.slice(0, 100).map((problem, at) => ({ ...problem, at }))}
        rowKey={(problem) => String(problem.at)}
        columns={[
          { name: 'Line', right: true, width: 70, cell: (problem) => (problem.line === null || problem.line === undefined ? '–' : count(problem.line)) },
          { name: 'Code', cell: (problem) => <span className={css.mono}>{problem.code}</span> },
          { name: 'Field', wide: true, cell: (problem) => problem.param ?? '–' },
          { name: 'Problem', cell: (problem) => problem.message },
        ]}
      />
    </Section>
  );
}
