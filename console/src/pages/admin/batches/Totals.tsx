/** What everyone's batches sum up to, and each owner's; an owner narrows the list below. */
import { type Column, DataTable } from '../../../parts/DataTable';
import { compact, count, counted } from '../../../parts/format';
import { Cards, FigureCard } from '../../../parts/Meter';
import { Money } from '../../../parts/Money';
import { OutcomeBar, OutcomeLegend } from '../../../parts/OutcomeBar';
import { Section } from '../../../parts/Page';
import css from '../../../parts/parts.module.css';
import admin from '../admin.module.css';
import { cachedWords, outcomesOfSums, type Summary, type Sums, type UserSums } from './wire';

export function Totals(props: { summary: Summary; onOwner: (accountId: string) => void }) {
  const { totals, users } = props.summary;
  return (
    <>
      <Cards>
        <FigureCard name="Batches stored" value={count(totals.batches)} note={users.length === 100 ? 'of 100 or more accounts' : `of ${counted(users.length, 'account')}`} />
        <FigureCard name="Requests" value={compact(totals.total)} note={`${compact(totals.not_finished)} not finished`} />
        <FigureCard name="Input tokens" value={compact(totals.input_tokens)} note={cacheNote(totals)} />
        <FigureCard name="Known cost" value={<Money usd={totals.cost_usd} unknown={totals.cost_unknown_attempts} />} note={unknownNote(totals)} />
      </Cards>
      <div className={css.card} style={{ marginTop: 14 }}>
        <OutcomeBar total={totals.total} outcomes={outcomesOfSums(totals)} tall />
        <div style={{ marginTop: 12 }}>
          <OutcomeLegend outcomes={outcomesOfSums(totals)} waiting={totals.not_finished} />
        </div>
      </div>
      {users.length > 0 && (
        <Section title="By account" aside={<span className={css.sub}>what cost most first</span>}>
          <div className={admin.tall}>
            <DataTable label="Totals by account" columns={columnsOf(props.onOwner)} rows={users} rowKey={(user) => user.account_id} />
          </div>
        </Section>
      )}
    </>
  );
}

function cacheNote(sums: Sums): string {
  const unrecorded = sums.cache_unrecorded_batches;
  const words = cachedWords(sums.input_tokens, sums.cached_tokens) ?? 'none of it cached';
  return unrecorded === 0 ? words : `${words}, ${counted(unrecorded, 'batch', 'batches')} did not record it`;
}

function unknownNote(sums: Sums): string {
  return sums.cost_unknown_attempts === 0 ? 'every attempt is known' : `without ${counted(sums.cost_unknown_attempts, 'attempt')} of unknown cost`;
}

function columnsOf(onOwner: (accountId: string) => void): readonly Column<UserSums>[] {
  return [
    {
      name: 'Account',
      cell: (user) => (
        <div>
          <button type="button" className={admin.plain} onClick={() => onOwner(user.account_id)} title="Show this account's batches">
            {user.user_name}
          </button>
          {user.email !== null && <div className={css.sub}>{user.email}</div>}
        </div>
      ),
    },
    { name: 'Batches', right: true, wide: true, cell: (user) => count(user.totals.batches) },
    {
      name: 'Requests',
      width: '22%',
      cell: ({ totals }) => (
        <div style={{ minWidth: 84 }}>
          <div style={{ marginBottom: 5, whiteSpace: 'nowrap' }}>
            {count(totals.total - totals.not_finished)} <span className={css.sub}>of {count(totals.total)}</span>
          </div>
          <OutcomeBar total={totals.total} outcomes={outcomesOfSums(totals)} />
        </div>
      ),
    },
    {
      name: 'Input',
      right: true,
      wide: true,
      cell: ({ totals }) => (
        <>
          {compact(totals.input_tokens)}
          <div className={css.sub}>{cachedWords(totals.input_tokens, totals.cached_tokens)}</div>
        </>
      ),
    },
    { name: 'Output', right: true, wide: true, cell: ({ totals }) => compact(totals.output_tokens) },
    { name: 'Known cost', right: true, cell: ({ totals }) => <Money usd={totals.cost_usd} unknown={totals.cost_unknown_attempts} /> },
  ];
}
