-- Workers, their leases, and the slots they hold.

-- name: register_worker
-- A worker begins, with what it can run; its lease is on the database's clock.
insert into workers (host, pid, version, schema_version, surfaces, targets, lease_until)
values ($1, $2, $3, $4, $5, $6, now() + make_interval(secs => $7)) returning no;

-- name: living_workers
-- The workers whose lease runs, with the moment each began.
select no, started_at from workers where ended_at is null and lease_until > now() order by no;

-- name: worker_began
-- When a worker began.
select started_at from workers where no = $1;

-- name: lapse_worker
-- A worker is dead: its lease ends now.
update workers set lease_until = now() where no = $1 and ended_at is null and lease_until > now();

-- name: beat
-- Prolong a worker's lease, which covers everything it holds; nothing comes back once it has lapsed.
update workers set lease_until = now() + make_interval(secs => $2)
where no = $1 and ended_at is null and lease_until > now() returning no;

-- name: assert_alive
-- Hold the worker's row, so that nobody takes over from it while it claims; nothing comes back once its lease lapsed.
select no from workers where no = $1 and ended_at is null and lease_until > now() for key share;

-- name: lock_worker
-- Wait for what the worker's own transactions, even those it broke off, still do under its name.
select no from workers where no = $1 for update;

-- name: end_worker
-- A worker is gone; one that yet holds items has lapsed, so that others take them over at once.
update workers
set lease_until = least(lease_until, now()),
    ended_at = case when not exists (select from batch_items where worker_no = $1 and state = 'running') then now() end
where no = $1 and ended_at is null;

-- name: lapsed_workers
-- Workers whose lease ran out; not those from which this build may take nothing.
select no from workers
where ended_at is null and lease_until <= now()
  and (not exists (select from batch_items i where i.worker_no = workers.no and i.state = 'running')
       or exists (select from batch_items i join batch_jobs j on j.no = i.batch_no
                  where i.worker_no = workers.no and i.state = 'running'
                    and j.api_surface = any($1) and j.target = any($2) and j.schema_version <= $3))
order by no limit 10;

-- name: lock_lapsed
-- A lapsed worker, for one process to take over from; nothing comes back while another does.
select no from workers where no = $1 and ended_at is null and lease_until <= now() for update skip locked;

-- name: held_batches
-- Some batches of which a worker holds items, and which this build knows.
select distinct i.batch_no from batch_items i join batch_jobs j on j.no = i.batch_no
where i.worker_no = $1 and i.state = 'running'
  and j.api_surface = any($3) and j.target = any($4) and j.schema_version <= $5
order by i.batch_no limit $2;

-- name: held_items
-- What a worker holds of some locked batches: nobody moves any of it meanwhile.
select batch_no, id, model, claim_epoch, attempts from batch_items
where worker_no = $1 and state = 'running' and batch_no = any($2) order by batch_no, id;

-- name: holds_live_lease
-- Whether a living worker holds any item of a batch.
select exists (
    select from workers w join batch_items i on i.worker_no = w.no and i.state = 'running' and i.batch_no = $1
    where w.ended_at is null and w.lease_until > now());

-- name: end_lapsed
-- A lapsed worker is gone once everything was taken from it, also what only a newer build may take.
update workers set ended_at = now()
where no = $1 and ended_at is null
  and not exists (select from batch_items where worker_no = $1 and state = 'running');

-- name: prune_workers
-- Forget workers that ended long ago, and what their requests might have cost.
with gone as (delete from workers where ended_at < now() - interval '7 days' returning no)
delete from batch_reservations r using gone where r.worker_no = gone.no;

-- name: list_slots
-- The slots that living workers hold for a model, and the wishes of those that asked lately and got none.
select account_id, worker_no, slots, wants from (
    select s.account_id, s.worker_no, s.slots, s.wanted > 0 and s.asked_at > now() - interval '3 seconds' as wants
    from batch_slots s join workers w on w.no = s.worker_no
    where s.model = $1 and w.ended_at is null and w.lease_until > now()) s
where slots > 0 or wants;

-- name: account_slots
-- The slots that accounts hold on all models but one.
select s.account_id, sum(s.slots)::int as slots
from batch_slots s join workers w on w.no = s.worker_no
where s.account_id = any($1) and s.model <> $2 and w.ended_at is null and w.lease_until > now()
group by s.account_id;

-- name: set_slots
-- What a worker holds of a model from now on, and what it asked for in vain.
insert into batch_slots (model, account_id, worker_no, slots, wanted, asked_at)
select $1, account_id, $2, slots, wanted, now()
from unnest($3::text[], $4::int[], $5::int[]) as s(account_id, slots, wanted)
on conflict (model, account_id, worker_no) do update
set slots = excluded.slots, wanted = excluded.wanted, asked_at = excluded.asked_at;

-- name: drop_slots
-- Rows of a model that say nothing: no slot held, and none asked for lately.
delete from batch_slots
where model = $1 and slots = 0 and (wanted = 0 or asked_at <= now() - interval '3 seconds');

-- name: drop_worker_slots
-- The slots of a worker that is gone.
delete from batch_slots where worker_no = $1;
