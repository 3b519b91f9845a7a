/** The workers: where they run, what they hold, until when their lease lasts. */
import type { Schemas } from '../../../api/client';
import { type Column, DataTable } from '../../../parts/DataTable';
import { count } from '../../../parts/format';
import { Cards, FigureCard } from '../../../parts/Meter';
import css from '../../../parts/parts.module.css';
import { Empty } from '../../../parts/states';
import { Status } from '../../../parts/Status';
import { Time } from '../../../parts/Time';

export type Worker = Schemas['WorkerObject'];

export function WorkersView({ workers }: { workers: readonly Worker[] }) {
  if (workers.length === 0) return <Empty title="No worker runs">Batches wait until one does: ebbtide serve has one, ebbtide worker is one.</Empty>;
  const alive = workers.filter((worker) => worker.alive);
  const running = workers.reduce((sum, worker) => sum + worker.running, 0);
  const versions = new Set(workers.map((worker) => worker.version));
  return (
    <>
      <Cards>
        <FigureCard name="Workers" value={count(alive.length)} note={alive.length === workers.length ? 'all of them well' : `${count(workers.length - alive.length)} silent`} />
        <FigureCard name="Requests held" value={count(running)} note={running === 0 ? 'nothing waits that may start' : heldNote(alive)} />
        <FigureCard name="Release" value={versions.size === 1 ? [...versions][0] : `${versions.size} releases`} note={versions.size === 1 ? 'the same everywhere' : [...versions].join(', ')} />
      </Cards>
      <div style={{ marginTop: 20 }}>
        <DataTable label="Workers" columns={COLUMNS} rows={workers} rowKey={(worker) => String(worker.no)} />
      </div>
    </>
  );
}

/** What it may have in flight. It holds a few more, ready to start, and none are allotted where nothing may run. */
function heldNote(workers: readonly Worker[]): string {
  return `${count(workers.reduce((sum, worker) => sum + worker.slots, 0))} may be in flight`;
}

const COLUMNS: readonly Column<Worker>[] = [
  {
    name: 'Worker',
    cell: (worker) => (
      <div>
        <div style={{ fontWeight: 500 }}>{worker.host}</div>
        <div className={css.sub}>
          no. {worker.no} · pid {worker.pid}
        </div>
      </div>
    ),
  },
  { name: 'State', cell: (worker) => <Status {...(worker.alive ? { tone: 'good', word: 'Alive' } : { tone: 'bad', word: 'Silent', note: 'others take its requests over' })} /> },
  {
    name: 'Requests',
    width: '18%',
    cell: (worker) => (
      <div style={{ minWidth: 80 }}>
        <div>{worker.running === 0 ? 'Idle' : `${count(worker.running)} held`}</div>
        {worker.running > 0 && <div className={css.sub}>{heldNote([worker])}</div>}
      </div>
    ),
  },
  { name: 'Targets', wide: true, cell: (worker) => <span className={css.sub}>{worker.targets.join(', ')}</span> },
  {
    name: 'Release',
    wide: true,
    cell: (worker) => (
      <div>
        {worker.version}
        <div className={css.sub}>schema {worker.schema_version}</div>
      </div>
    ),
  },
  { name: 'Started', wide: true, cell: (worker) => <Time at={worker.started_at} ago /> },
  { name: 'Lease', wide: true, cell: (worker) => <Time at={worker.lease_until} ago /> },
];
