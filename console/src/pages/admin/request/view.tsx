/** What is known of one call: who, what, how it went; and its content side by side. */
import { Link } from 'react-router';

import type { Schemas } from '../../../api/client';
import { Code, Id } from '../../../parts/Copy';
import { bytes, count, duration } from '../../../parts/format';
import { Facts, Section } from '../../../parts/Page';
import css from '../../../parts/parts.module.css';
import { Note } from '../../../parts/states';
import { Status } from '../../../parts/Status';
import { Time } from '../../../parts/Time';
import batch from '../../batch/batch.module.css';
import admin from '../admin.module.css';
import { costOf, outcomeOf } from '../requests/wire';

type LogDetail = Schemas['LogDetail'];

export function RequestView({ request }: { request: LogDetail }) {
  return (
    <>
      <div className={css.card}>
        <Facts
          facts={[
            ['Outcome', <Status {...outcomeOf(request)} />],
            ['When', <Time at={request.at} seconds />],
            ['Took', request.total_ms === null ? null : duration(request.total_ms)],
            ['First token', request.first_token_ms === null ? null : duration(request.first_token_ms)],
            ['Account', <Link className={admin.link} to={`/admin/accounts/${request.account_id}`}>{request.account_name ?? request.account_id}</Link>],
            ['API key', request.key_name ?? <Id id={request.key_id} />],
            ['Model', request.model],
            ['Target', `${request.target}${request.streamed === true ? ', streamed' : ''}`],
            ['Route', request.route],
            ['Upstream calls', request.attempts === null ? null : count(request.attempts)],
            ['Cost', costOf(request)],
            ['Request id', request.request_id === null ? null : <Id id={request.request_id} />],
            ['Batch', request.batch_id === null ? null : <Link className={admin.link} to={`/batches/${request.batch_id}`}>{request.batch_id.slice(0, 14)}…</Link>],
            ['Try', request.attempt === null ? null : count(request.attempt)],
          ]}
        />
      </div>
      <Section title="Tokens">
        <Facts
          facts={[
            ['Input', tokens(request.prompt_tokens)],
            ['of it cached', tokens(request.cached_tokens)],
            ['Output', tokens(request.completion_tokens)],
            ['of it reasoning', tokens(request.reasoning_tokens)],
          ]}
        />
      </Section>
      <Section title="Content">
        <Content request={request} />
      </Section>
    </>
  );
}

function tokens(value: number | null): string {
  return value === null ? 'Not told' : count(value);
}

function Content({ request }: { request: LogDetail }) {
  if (request.source === 'batch') {
    return (
      <Note tone="quiet">
        What a batch’s requests said is kept with the batch:{' '}
        <Link className={admin.link} to={`/admin/batches/${request.batch_id}`}>
          its stored requests
        </Link>
        .
      </Note>
    );
  }
  const { content } = request;
  if (content === null) return <Note tone="quiet">Nothing of what was said is kept: DB_STORE_FULL_CONTENT was off, or its time is over.</Note>;
  return (
    <>
      {content.truncated && (
        <div style={{ marginBottom: 12 }}>
          <Note tone="warn">It was too long to be kept whole.</Note>
        </div>
      )}
      <div className={batch.pair} style={{ padding: 0 }}>
        <div>
          <h3 className={batch.pairTitle}>Request · {bytes(content.request_bytes)}</h3>
          <Code text={readable(content.request)} label="Request" wrapped />
        </div>
        <div>
          <h3 className={batch.pairTitle}>Answer · {bytes(content.answer_bytes)}</h3>
          <Code text={readable(content.answer)} label="Answer" wrapped />
        </div>
      </div>
    </>
  );
}

/** JSON with its lines indented; anything else as it is. */
function readable(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
