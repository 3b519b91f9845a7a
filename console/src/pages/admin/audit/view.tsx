/** The audit log: when, who, what, to what. */
import { type Column, DataTable, nextOf, Pager } from '../../../parts/DataTable';
import css from '../../../parts/parts.module.css';
import { Empty } from '../../../parts/states';
import { Time } from '../../../parts/Time';
import type { UrlState } from '../../../parts/useUrlState';
import admin from '../admin.module.css';
import { type Entry, linesOf, shortSubject } from './wire';

export function AuditView(props: { page: { data: Entry[]; has_more: boolean; last_id: string | null }; url: UrlState; stale: boolean }) {
  const { page, url } = props;
  if (page.data.length === 0) return <Empty title="Nothing of this kind was done">Take a filter away, or look at other days.</Empty>;
  return (
    <>
      <DataTable label="Audit log" columns={columnsOf(url)} rows={page.data} rowKey={(entry) => entry.id} stale={props.stale} />
      <Pager url={url} shown={page.data.length} order="newest first" next={nextOf(page)} />
    </>
  );
}

function columnsOf(url: UrlState): readonly Column<Entry>[] {
  return [
    { name: 'When', cell: (entry) => <Time at={entry.at} seconds /> },
    {
      name: 'Who',
      cell: (entry) => {
        const [account = entry.actor, key] = entry.actor.split('/');
        return (
          <div style={{ minWidth: 88 }}>
            <button type="button" className={admin.plain} title={`Only what ${entry.actor} did`} onClick={() => url.set({ actor: account })}>
              {entry.actor_name ?? shortSubject(account)}
            </button>
            {key !== undefined && <div className={`${css.sub} ${css.mono} ${css.wide}`}>{key.slice(0, 16)}…</div>}
          </div>
        );
      },
    },
    { name: 'What', cell: (entry) => <span className={css.mono}>{entry.action}</span> },
    {
      name: 'To what',
      wide: true,
      cell: (entry) => (
        <button type="button" className={admin.plain} style={{ fontWeight: 400 }} title={`Only what was done to ${entry.subject}`} onClick={() => url.set({ subject: entry.subject })}>
          {entry.subject_name ?? shortSubject(entry.subject)}
        </button>
      ),
    },
    {
      name: 'Change',
      wide: true,
      cell: (entry) => linesOf(entry).map((line) => <div key={line} className={css.sub} style={{ overflowWrap: 'anywhere' }}>{line}</div>),
    },
  ];
}
